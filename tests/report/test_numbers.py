import pytest

from lingraft.report import numbers


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (lambda value: numbers.fixed(value, 1), -0.31, "−0.3"),
        (lambda value: numbers.fixed(value, 1), -0.01, "0.0"),
        (numbers.significant, 5.071, "5.07"),
        (numbers.significant, 12_345.6, "12,346"),
        (numbers.significant, float("nan"), "–"),
        (numbers.short, 9_400, "9,400"),
        (numbers.short, 88_000, "88 k"),
        (numbers.short, 880_640, "0.88 M"),
        (numbers.short, 2.5e9, "2.5 B"),
        (numbers.percent, 0.0001, "< 0.1 %"),
        (numbers.duration, 200, "3 min 20 s"),
        (numbers.duration, 59.7, "1 min 0 s"),
        (numbers.duration, 3_599.9, "1 h 0 min"),
        (numbers.size, 5_240_000, "5.24 MB"),
    ],
)
def test_numbers_read_as_people_write_them(show, value, text):
    assert show(value).replace(numbers.NO_BREAK, " ") == text


def test_a_difference_has_a_sign_unless_it_is_shown_as_nothing() -> None:
    assert [numbers.signed(value, 1) for value in (1.25, -0.3, 0.04, -0.04)] == [
        *("+1.2", "−0.3", "0.0", "0.0")
    ]
    assert numbers.between(-0.31, 0.4, 1, sign=True) == "[−0.3, +0.4]"
    assert numbers.between(1, 2, 1) == "[1.0, 2.0]"
    assert numbers.between(None, None, 1) == ""
