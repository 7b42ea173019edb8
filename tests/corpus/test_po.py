import random
from pathlib import Path

import pytest

from lingraft.corpus.readers import parallel, po
from lingraft.corpus.readers.documents import Source
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.readers.parallel import Layout
from lingraft.errors import DataError
from lingraft.recipe import Corpus

HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
FILE = (
    HEADER
    + r"""
# translator's note
#: file.c:3
msgctxt "menu"
msgid "Open %s"
msgstr "%s 열기"

msgid ""
"Two "
"lines\n"
msgstr ""
"두 "
"줄\n"

#, fuzzy, c-format
#| msgid "Old"
msgid "Guess"
msgstr "추측"

msgid "Nothing"
msgstr ""

msgid "A \"quoted\" \\ word\tand {name}"
msgstr "\"인용\" \\ 낱말\t{name}"
msgid "Right after"
msgstr "바로 다음"

msgid "One file"
msgid_plural "%d files"
msgstr[0] "파일 %d개"

#~ msgid "Gone"
#~ msgstr "없음"
"""
)


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def pairs(path: Path) -> tuple[list[tuple[str, str]], Reading]:
    reading = Reading()
    return [
        (p.source, p.target) for p in parallel.read([path], Layout("en", "ko"), reading)
    ], reading


def test_pairs_are_messages_with_their_translation(tmp_path: Path) -> None:
    found, _ = pairs(write(tmp_path / "a.po", FILE))
    assert found == [
        ("Open %s", "%s 열기"),
        ("Two lines\n", "두 줄\n"),
        ('A "quoted" \\ word\tand {name}', '"인용" \\ 낱말\t{name}'),
        ("Right after", "바로 다음"),
        ("%d files", "파일 %d개"),
    ]


def test_fuzzy_obsolete_and_untranslated_messages_are_counted(tmp_path: Path) -> None:
    _, reading = pairs(write(tmp_path / "a.po", FILE))
    assert reading.dropped == {po.FUZZY: 1, po.OBSOLETE: 1, po.UNTRANSLATED: 1}


def test_plural_forms_pair_the_first_with_the_singular_and_the_last_with_the_plural(
    tmp_path: Path,
) -> None:
    text = HEADER + (
        'msgid "%d file"\nmsgid_plural "%d files"\n'
        'msgstr[0] "%d soubor"\nmsgstr[1] "%d soubory"\nmsgstr[2] "%d souborů"\n'
    )
    path = write(tmp_path / "a.po", text)
    assert pairs(path)[0] == [("%d file", "%d soubor"), ("%d files", "%d souborů")]


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3", "03"),
        ("n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : 0", "10"),
        ("n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0", "10"),
        ("(n != 1", "03"),
        ("n ? 7 : 1", "03"),
        ("1/(n-3)", "03"),
    ],
)
def test_plural_forms_are_those_of_the_header_s_rule(rule: str, found: str, tmp_path: Path) -> None:
    header = HEADER.rstrip() + f'\n"Plural-Forms: nplurals=4; plural=({rule});\\n"\n\n'
    text = (
        header
        + 'msgid "a"\nmsgid_plural "b"\n'
        + "".join(f'msgstr[{number}] "{number}"\n' for number in range(4))
    )
    assert pairs(write(tmp_path / "a.po", text))[0] == [("a", found[0]), ("b", found[1])]


@pytest.mark.parametrize("encoding", ["euc-kr", "utf-8", "cp949"])
def test_the_charset_of_the_header_is_taken(tmp_path: Path, encoding: str) -> None:
    text = HEADER.replace("UTF-8", encoding) + 'msgid "a"\nmsgstr "한글"\n'
    assert pairs(write(tmp_path / "a.po", text, encoding))[0] == [("a", "한글")]


@pytest.mark.parametrize("charset", ["klingon-8", "hex"])
def test_an_unknown_charset_is_refused(tmp_path: Path, charset: str) -> None:
    text = HEADER.replace("UTF-8", charset) + 'msgid "a"\nmsgstr "b"\n'
    with pytest.raises(DataError, match=f"charset={charset}"):
        pairs(write(tmp_path / "a.po", text))


def test_every_form_of_a_message_is_a_line_of_its_document(tmp_path: Path) -> None:
    text = HEADER + (
        'msgid "%d file"\nmsgid_plural "%d files"\n'
        'msgstr[0] "%d soubor"\nmsgstr[1] "%d soubory"\n\nmsgid "a"\nmsgstr "b"\n'
    )
    path = write(tmp_path / "a.po", text)
    section = Corpus(text=(str(path),))
    found = list(po.read(Source(path.name, path), section, Reading()))
    assert found == [(None, "%d soubor\n%d soubory"), (None, "b")]


def test_a_broken_message_is_counted_and_the_next_one_read(tmp_path: Path) -> None:
    text = HEADER + 'msgid "a\nmsgstr "b"\n\nmsgid "c"\nmsgstr "d"\n'
    found, reading = pairs(write(tmp_path / "a.po", text))
    assert found == [("c", "d")]
    assert reading.dropped == {po.BROKEN_MESSAGE: 1}


def test_a_file_of_other_bytes_is_read_without_anything_but_a_data_error(tmp_path: Path) -> None:
    rng = random.Random(0)
    whole = FILE.encode()
    path = tmp_path / "a.po"
    refusals, dropped = [], 0
    for _ in range(150):
        data = bytearray(whole[: rng.randrange(len(whole))])
        for _ in range(rng.randrange(6)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            found, reading = pairs(path)
        except DataError as error:
            refusals.append(str(error))
        else:
            assert len(found) <= 6
            dropped += bool(reading.dropped)
    assert refusals
    assert dropped
    assert not any("\n" in message for message in refusals)


def test_a_message_that_never_ends_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(po, "MAX_MESSAGE_CHARACTERS", 1_000)
    text = (
        HEADER + 'msgid "a"\nmsgstr ""\n' + '"가나다라마바사"\n' * 500 + '\nmsgid "c"\nmsgstr "d"\n'
    )
    found, reading = pairs(write(tmp_path / "a.po", text))
    assert found == [("c", "d")]
    assert reading.dropped == {po.BROKEN_MESSAGE: 1}
