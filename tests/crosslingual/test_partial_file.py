"""Two calls that write one file."""

import pytest

from lingraft.crosslingual.partial_file import PartialFile
from lingraft.errors import DataError


def begun(out):
    file = PartialFile(out, [], overwrite=True)
    file.begin("the same", "lines")
    return file


def test_a_file_that_another_call_is_writing_is_left_to_it(tmp_path):
    out = tmp_path / "out.txt"
    first = begun(out)
    with first.growing() as stream:
        stream.write(b"one\n")
        first.keep(stream)
        second = begun(out)  # it goes on behind the first line
        stream.write(b"two\n")
        first.keep(stream)
        kept = out.with_name("out.txt.partial.json").read_text()
        with pytest.raises(DataError, match="another lingraft is writing it"), second.growing():
            pass
        assert out.with_name("out.txt.partial.json").read_text() == kept
    assert out.read_bytes() == b"one\ntwo\n"
    with pytest.raises(DataError, match="another lingraft is writing it"), second.growing():
        pass
    assert out.read_bytes() == b"one\ntwo\n"


def test_what_is_read_is_never_replaced(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one\n", encoding="utf-8")
    other = tmp_path / "other" / ".." / "text.txt"
    (tmp_path / "other").mkdir()
    for out in (text, other):
        with pytest.raises(DataError, match="is the text that is read"):
            PartialFile(out, [text], overwrite=True)


def test_a_folder_is_no_file_to_replace(tmp_path):
    for overwrite in (False, True):
        with pytest.raises(DataError, match="is a folder; name a file with --out"):
            PartialFile(tmp_path, [], overwrite=overwrite)
