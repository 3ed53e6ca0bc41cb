"""Tiny files in the layout of COCO's: annotations in zips,
Karpathy's lists, pictures under names of 2014 or 2017."""

from helpers.generators import jpeg
from rehearsal.archives import write_zip
from rehearsal.coco import captions_of, list_line

SENTENCES = ("A dog's bowl, on grass.", "Two dogs run", "dogs run", "THE DOG", "A dog.")
TRAIN, VAL = (9, 25, 30), (42, 73, 74, 133)
LISTED = {"val": 42, "test": 133}


def name_2014(image_id):
    part = "train2014" if image_id in TRAIN else "val2014"
    return f"COCO_{part}_{image_id:012d}.jpg"


def name_2017(image_id):
    return f"{image_id:012d}.jpg"


def annotations(image_ids, name, first):
    """Return the content of a captions_*.json, five captions per image, ids from ``first``."""
    pairs = [(image_id, text) for text in SENTENCES for image_id in image_ids]
    captions = [(first + number, image_id, text) for number, (image_id, text) in enumerate(pairs)]
    return captions_of({image_id: name(image_id) for image_id in image_ids}, captions)


def write_coco(folder, *, change=None):
    """Write annotations of both years, pictures and lists.

    ``change`` may spoil the captions of 2014, train and val.
    """
    folder.mkdir(parents=True, exist_ok=True)
    train, val = annotations(TRAIN, name_2014, 100), annotations(VAL, name_2014, 500)
    if change is not None:
        change(train, val)
    both = {"annotations/captions_train2014.json": train, "annotations/captions_val2014.json": val}
    write_zip(
        folder / "annotations_2014.zip",
        {**both, "annotations/instances_val2014.json": {"images": []}},
    )
    later = {"annotations/captions_val2017.json": annotations((42, 73, 74), name_2017, 500)}
    write_zip(folder / "annotations_2017.zip", later)
    for part, ids in (("train2014", TRAIN), ("val2014", VAL)):
        write_zip(
            folder / f"{part}.zip", {f"{part}/{name_2014(number)}": jpeg(number) for number in ids}
        )
    write_zip(
        folder / "all2017.zip",
        {f"train2017/{name_2017(number)}": jpeg(number) for number in (*TRAIN, *VAL)},
    )
    for split, number in LISTED.items():
        (folder / f"{split}.txt").write_text(list_line("val2014", name_2014(number), number))
    return folder


def spec(**changes):
    """Return the settings of the plain files of 2014."""
    values = {
        "kind": "coco",
        "annotations": ["annotations_2014.zip"],
        "images": ["train2014.zip", "val2014.zip"],
    }
    return {**values, "val_list": "val.txt", "test_list": "test.txt", "partial": True, **changes}
