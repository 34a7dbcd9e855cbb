import pytest

from buildchain.store import failure

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
    assert failure.requested_pause(value, NOW) == seconds


def test_a_server_that_asks_for_too_much_is_given_up():
    assert failure.TransferError("x", passing=True, after=299).passing
    assert not failure.TransferError("x", passing=True, after=3600).passing
