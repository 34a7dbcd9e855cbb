import pytest

from buildchain.store import retry

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0.0),
        ("", 0.0),
        ("0", 0.0),
        (" 12 ", 12.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("soon", 0.0),
        ("٣", 0.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0),
        ("Tue, 99 Nov 2023 22:13:00 GMT", 0.0),
    ],
)
def test_requested_pause(value, seconds):
    assert retry.requested_pause(value, NOW) == seconds


def test_pause_grows_to_a_limit_and_is_partly_chance():
    for failures, longest in [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (50, 30.0)]:
        found = {retry.pause(failures) for _ in range(20)}
        assert len(found) > 1
        assert all(longest / 2 <= seconds <= longest for seconds in found)
    assert retry.pause(1, after=9.0) == 9.0


def test_a_server_that_asks_for_too_much_is_given_up():
    assert retry.TransferError("x", passing=True, after=299).passing
    assert not retry.TransferError("x", passing=True, after=3600).passing
