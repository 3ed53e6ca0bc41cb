"""Results that DVC made read-only can be rewritten by Snakemake, and DVC's cache stays as it is."""

import stat

from workflow.provenance import make_writable


def test_links_to_the_cache_become_writable_and_a_new_file_leaves_the_cache_alone(tmp_path):
    cached, result = tmp_path / "cache", tmp_path / "results" / "a" / "file"
    cached.write_text("old")
    cached.chmod(0o444)
    result.parent.mkdir(parents=True)
    result.hardlink_to(cached)
    (result.parent / "link").symlink_to(cached)
    (result.parent / "own").write_text("own")
    make_writable([tmp_path / "results", tmp_path / "none"])
    assert result.stat().st_mode & stat.S_IWUSR
    new = result.with_name("new")
    new.write_text("new")
    new.replace(result)
    assert (cached.read_text(), result.read_text()) == ("old", "new")
