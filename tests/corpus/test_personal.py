import pytest

from lingraft.corpus.cleaning import personal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("메일은 hong.gil-dong+a@mail.example.co.kr로 주세요", "메일은 <email>로 주세요"),
        ("(a@b.io), 홍@한국.com.", "(<email>), <email>."),
        ("전화 010-1234-5678, 02)345-6789", "전화 <phone>, 02)345-6789"),
        ("+82 10 1234 5678 / (02) 345-6789", "<phone> / <phone>"),
        ("01 23 45 67 89 or 415-555-2671", "<phone> or <phone>"),
        ("연락처 02-123-4567/010-2345-6789", "연락처 <phone>/<phone>"),
        ("Tel.02-123-4567 M.010-1234-5678", "Tel.<phone> M.<phone>"),
        ("DNS 8.8.8.8, 2001:4860:4860::8888.", "DNS <ip>, <ip>."),
        ("DNS는 8.8.8.8입니다. 2001:4860:4860::8888로도", "DNS는 <ip>입니다. <ip>로도"),
        ("電話03-1234-5678まで。IP是8.8.8.8。", "電話<phone>まで。IP是<ip>。"),
    ],
)
def test_personal_data_is_replaced_by_its_kind(text: str, expected: str) -> None:
    assert personal.mask(text)[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "user@host, @이름, a@b",
        "2020-01-02 01-02-2020 12:30:45 1,000,000 3.14159",
        "ISBN 978-89-1234-567-8, 1588-1234, 04-1234",
        "127.0.0.1 192.168.0.1 v1.2.3.4.5 300.1.1.1",
        "std::vector ::1 2001:db8::1 2002::/16",
        "http://example.org/0123-456-7890",
        "1.010-1234-5678 010-1234-5678/2",
        "AB03-1234-5678 ver8.8.8.8 8.8.8.8a_",
    ],
)
def test_dates_versions_private_addresses_and_the_like_stay(text: str) -> None:
    assert personal.mask(text) == (text, {})


def test_each_kind_is_counted_and_a_second_time_finds_nothing() -> None:
    masked, counts = personal.mask("a@b.io c@d.io 8.8.8.8, 010-1234-5678 아무것도")
    assert counts == {personal.EMAIL: 2, personal.IP: 1, personal.PHONE: 1}
    assert personal.mask(masked) == (masked, {})


@pytest.mark.parametrize("piece", ["a", "a.", "a@", "1-", "0 ", "1:", "a@a.", "+1 ", "1."])
@pytest.mark.timeout(120)  # a pattern that goes back takes hours
def test_text_that_nearly_matches_stays_and_ends_soon(piece: str) -> None:
    assert personal.mask(piece * 20_000) == (piece * 20_000, {})
