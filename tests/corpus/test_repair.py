import pytest

from lingraft.corpus.cleaning import repair

TEXT = "고양이가 따뜻한 아랫목에서 하루 종일 자고 있었다. 그리고 다시 잤다."


def test_text_read_in_the_wrong_encoding_is_brought_back() -> None:
    pytest.importorskip("ftfy")
    assert repair.repair(TEXT.encode().decode("latin-1")) == (TEXT, True)
    assert repair.repair("naïve cafÃ© &amp; bar") == ("naïve café & bar", True)


@pytest.mark.parametrize("text", [TEXT, "“따옴표” ﬁ ａ"])
def test_text_in_order_stays(text: str) -> None:
    pytest.importorskip("ftfy")
    assert repair.repair(text) == (text, False)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_encodings_are_told_by_their_marks(encoding: str) -> None:
    assert repair.decode(TEXT.encode(encoding)) == (TEXT, encoding.removesuffix("-sig"))


@pytest.mark.parametrize("encoding", ["cp949", "euc_jp", "cp1251"])
def test_the_declared_encoding_is_taken_where_the_bytes_are_no_utf8(encoding: str) -> None:
    text = {"cp949": TEXT, "euc_jp": "猫は寝ている。", "cp1251": "Кошка спит на печи."}[encoding]
    assert repair.decode(text.encode(encoding), encoding) == (text, encoding)


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("ISO-8859-1", "cp1252", "L’été, l’élève n° 0 paya 30 € – à l’école."),
        ("latin1", "cp1252", "“Ça”"),
        ("euc-kr", "cp949", "똠방각하 펲시콜라"),
        ("gb2312", "gb18030", "朱镕基"),
        ("shift_jis", "cp932", "①髙島屋"),
    ],
)
def test_a_label_stands_for_what_browsers_take_it_for(label: str, encoding: str, text: str) -> None:
    assert repair.decode(text.encode(encoding), label) == (text, encoding)


@pytest.mark.parametrize("declared", [None, "utf-8", "euc-kr"])
@pytest.mark.parametrize("text", [TEXT, "Học sinh nhất thế giới."])
def test_one_damaged_byte_makes_no_other_encoding_of_utf8(text: str, declared: str | None) -> None:
    data = text.encode()
    middle = len(text[: len(text) // 2].encode())
    assert repair.decode(data[:middle] + b"\xc3" + data[middle:], declared) == (
        text[: len(text) // 2] + "\ufffd" + text[len(text) // 2 :],
        "utf-8",
    )


def test_utf8_goes_before_what_is_declared() -> None:
    assert repair.decode(TEXT.encode(), "euc-kr") == (TEXT, "utf-8")


@pytest.mark.parametrize("declared", [None, "klingon-8", "ascii"])
def test_an_encoding_that_nobody_or_nobody_rightly_names_is_found(declared: str | None) -> None:
    pytest.importorskip("charset_normalizer")
    decoded = repair.decode(TEXT.encode("euc-kr"), declared)
    assert decoded is not None
    assert decoded[0] == TEXT
