import json
import zipfile

import pytest

from helpers.refusals import refused
from recap.core.errors import DamagedData, DataError
from recap.data.files.entries import each_of

VALUES = [{"a": [1, {"b": "]}"}]}, "x", 2.5, None, [], True]


def written(folder, text):
    path = folder / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("indent", [None, 3])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_elements_are_those_of_the_whole_file(tmp_path, indent, encoding):
    content = {"info": {"count": [0]}, "images": VALUES, "é": "ü"}
    path = written(
        tmp_path, json.dumps(content, indent=indent, ensure_ascii=False).encode(encoding)
    )
    assert list(each_of(path, "*.json", "images")) == VALUES


def test_elements_of_the_one_json_of_a_zip(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("deep/dataset.json", json.dumps({"images": VALUES}))
        archive.writestr("other.json", "{}")
        archive.writestr("__MACOSX/deep/dataset.json", "x")
    assert list(each_of(path, "data*.json", "images")) == VALUES
    with refused(DataError, "expected one JSON"):
        list(each_of(path, "*.json", "images"))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "{",
            '{"images"',
            '{"images": [1',
            '{"images": [1,]}',
            '{"images": [1 2]}',
            '{"images": [1]',
            "nul",
        ),
        *(
            '{"images": [1]} x',
            '{"images": [1],}',
            "{images: [1]}",
            "{1: [1]}",
            '{"images" [1]}',
            b"\xff\xfe\x00",
        ),
        '{"images": [' + "[" * 100_000,
    ],
)
def test_what_is_no_json_is_refused_as_by_the_parser_of_whole_files(tmp_path, text):
    path = written(tmp_path, text)
    with pytest.raises((ValueError, RecursionError)):
        json.loads(path.read_bytes())
    with refused(DamagedData, "a.json"):
        list(each_of(path, "*.json", "images"))


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "3", "{}", '{"images": {}}', '{"images": []}', '{"images": [1], "images": [2]}'),
        '{"info": {"images": [0]}, "images": [1]}',
    ],
)
def test_a_file_without_one_such_list_is_refused(tmp_path, text):
    with refused(DataError, "a.json"):
        list(each_of(written(tmp_path, text), "*.json", "images"))
