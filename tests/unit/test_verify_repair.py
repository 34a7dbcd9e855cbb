"""``verify.sh --repair``: whatever happens to a copy of an ISO is found, and mended from another.

``METALK8S_EXAMPLES`` says how many damaged copies are tried (40), of two to four damages each.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit import repairs
from tests.unit.repairs import BLOCK, SHELLS, SIZE, WHOLE, Damage, blocks

USAGE, CHANGED = 1, 12
SLOW = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


PLACE = st.integers(0, SIZE - 1)
DAMAGE = st.one_of(
    st.builds(Damage, st.just("bit"), PLACE, st.integers(0, 7)),
    st.builds(
        Damage, st.sampled_from(["zeros", "garbage"]), PLACE, st.sampled_from([512, 4096, 40000])
    ),
    st.builds(Damage, st.just("truncated"), PLACE, st.just(0)),
    st.builds(Damage, st.just("longer"), PLACE, st.integers(1, 5000)),
    st.builds(Damage, st.just("swapped"), PLACE, st.integers(1, 30000), PLACE),
)


def after(damages: list[Damage]) -> bytes:
    content = WHOLE
    for damage in damages:
        content = damage.do(content)
    return content


@SLOW
@given(
    st.lists(DAMAGE, min_size=2, max_size=4),
    st.lists(DAMAGE, max_size=2),
    st.sampled_from(SHELLS),
    st.booleans(),
)
def test_random_damages(copies, damages, others, shell, is_dry_first):
    """What either copy has is there in the end; nothing that was right is lost."""
    copy, before, source = copies(), after(damages), after(others)
    copy.target.write_bytes(before)
    copy.source.write_bytes(source)
    wanted, had, there = blocks(WHOLE), blocks(before), blocks(source)
    keeps_something = any(one == two and any(two) for one, two in zip(had, wanted, strict=True))
    is_mendable = all(wanted[i] in (had[i], there[i]) for i in range(len(wanted))) and (
        keeps_something or not before
    )
    if is_dry_first:
        foreseen, _ = copy.repair("--dry-run", shell=shell)
        assert copy.target.read_bytes() == before, "a dry run changes nothing"
    status, said = copy.repair(shell=shell)
    result = copy.target.read_bytes()
    assert not is_dry_first or status == foreseen, said
    assert (status == 0) == (result == WHOLE) == is_mendable, said
    assert not list(copy.scratch.iterdir())
    if not keeps_something and before:
        assert (status, result == before) == (USAGE, True)
        return
    if status == 0:
        return
    assert status == CHANGED
    for number, found in enumerate(blocks(result)):
        if there[number] == wanted[number]:
            assert found == wanted[number]
        else:
            # What was missing at the end of a file is zeros when something is behind it.
            assert found.startswith(had[number])
            assert not any(found[len(had[number]) :])
    copy.source.write_bytes(WHOLE)
    assert copy.repair(shell=shell)[0] == 0
    assert copy.target.read_bytes() == WHOLE


CUTS = st.tuples(st.integers(1, 45), st.integers(0, 20000))


@settings(SLOW, max_examples=max(10, SLOW.max_examples // 4))
@given(st.lists(DAMAGE, min_size=1, max_size=3), st.lists(CUTS, min_size=1, max_size=3))
def test_power_cuts(copies, damages, cuts):
    """Wherever it is killed, each block is right or as it was, and the next run goes on."""
    copy, before = copies(), after(damages)
    if not before.startswith(WHOLE[: 3 * BLOCK]):
        before = WHOLE[: 3 * BLOCK] + before[3 * BLOCK :]
    copy.target.write_bytes(before)
    for call, torn in cuts:
        before = copy.target.read_bytes()
        lines = repairs.KILL.format(call=call, torn=torn)
        status, said = copy.repair(environment=repairs.fake_dd(copy.folder / "bin", lines))
        assert status in (0, -9), said
        found = copy.target.read_bytes()
        assert len(found) >= min(len(before), SIZE)
        for number, (one, wanted) in enumerate(zip(blocks(found), blocks(WHOLE), strict=True)):
            had = blocks(before)[number]
            for at, octet in enumerate(one):
                assert octet == wanted[at] or octet == (had[at] if at < len(had) else 0), number
    status, said = copy.repair()
    assert (status, copy.target.read_bytes() == WHOLE) == (0, True), said


@settings(SLOW, max_examples=max(10, SLOW.max_examples // 4))
@given(st.lists(CUTS, min_size=1, max_size=3), st.sampled_from(SHELLS))
def test_a_copy_has_its_name_when_it_is_whole(copies, cuts, shell):
    """What is not there is made; a power cut leaves no half medium with the name of a whole one."""
    copy = copies()
    for call, torn in cuts:
        lines = repairs.KILL.format(call=call, torn=torn)
        environment = repairs.fake_dd(copy.folder / "bin", lines)
        status, said = copy.repair(shell=shell, environment=environment)
        assert status in (0, -9), said
        assert copy.target.exists() == (status == 0)
        assert not copy.target.exists() or copy.target.read_bytes() == WHOLE
        if status == 0:
            break
    status, said = copy.repair(shell=shell)
    assert (status, copy.target.read_bytes() == WHOLE) == (0, True), said
    assert not copy.target.with_name("demo.iso.part").exists()


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_what_is_said(copies, shell):
    copy = copies()
    damages = [Damage("bit", 3 * BLOCK, 1), Damage("zeros", 20 * BLOCK + 5, 2 * BLOCK)]
    copy.target.write_bytes(after([*damages, Damage("longer", 0, 512)]))
    named = (
        "signature  good: 1 of 1 wanted\n"
        f"damaged    bytes {3 * BLOCK} to {4 * BLOCK - 1}\n"
        f"damaged    bytes {20 * BLOCK} to {23 * BLOCK - 1}\n"
        "too long   512 bytes\n"
    )
    places = [
        f"bytes {a * BLOCK} to {b * BLOCK - 1}, from {copy.source}\n" for a, b in ((3, 4), (20, 23))
    ]
    would = "".join(f"would be repaired {place}" for place in places)
    dry = f"dry run    {copy.target} would be what was signed; nothing was changed\n"
    assert copy.repair("--dry-run", shell=shell) == (0, named + would + dry)
    mended = "".join(f"repaired   {place}" for place in places)
    last = "image      demo.iso is what was signed\n"
    assert copy.repair(shell=shell) == (0, named + mended + last)
    status, said = copy.repair(shell=shell)
    assert (status, "all 76 are what was signed; there is nothing to repair" in said) == (0, True)
    assert copy.repair("--quiet", shell=shell) == (0, "")


def test_an_image_says_where_it_was_changed(copies):
    """Without --repair, too, if the list is beside it; a list of another ISO says nothing."""
    copy = copies()
    copy.target.write_bytes(after([Damage("bit", 5 * BLOCK, 1)]))
    sums = copy.folder / "SHA256SUM"
    digest = copy.blocks.read_text().split("#sha256=")[1][:64]
    sums.write_text(f"{digest}  demo.iso\n")
    copy.home.sign(sums)
    named = f"damaged    bytes {5 * BLOCK} to {6 * BLOCK - 1}\n"
    for content, is_named in ((None, False), (repairs.image(2), False), (WHOLE, True)):
        if content is not None:
            copy.home.list_of(content, copy.folder / "demo.iso.blocks")
        status, said = copy.repair(copy.target, plain=True)
        assert (status, named in said) == (CHANGED, is_named), said
        assert "was changed: SHA-256" in said
    copy.folder.joinpath("demo.iso.blocks").write_text(copy.blocks.read_text() + "P x\n")
    status, said = copy.repair(copy.target, plain=True)
    assert (status, "damaged" in said, "was changed" in said) == (CHANGED, False, True)


def test_two_damaged_copies_repair_each_other(copies):
    copy = copies()
    first, second = after([Damage("zeros", 9000, 9000)]), after([Damage("truncated", 60000, 0)])
    copy.target.write_bytes(first)
    copy.source.write_bytes(second)
    assert copy.repair()[0] == 0
    assert (
        copy.repair(
            "--from", copy.target, copy.source, "--repair", "--blocks", copy.blocks, plain=True
        )[0]
        == 0
    )
    assert copy.target.read_bytes() == copy.source.read_bytes() == WHOLE


def test_several_sources(copies):
    """Each has what others have not."""
    copy, third = copies(), None
    copy.target.write_bytes(after([Damage("zeros", 20000, 40000)]))
    copy.source.write_bytes(after([Damage("garbage", 20000, 20000)]))
    third = copy.folder / "third.iso"
    third.write_bytes(after([Damage("garbage", 50000, 40000)]))
    assert copy.repair()[0] == CHANGED
    copy.target.write_bytes(after([Damage("zeros", 20000, 40000)]))
    status, said = copy.repair("--from", third)
    assert (status, copy.target.read_bytes() == WHOLE) == (0, True), said
    assert f", from {third}\n" in said


@pytest.mark.parametrize("missing", [1, 500, 700, 701, 3000])
def test_zeros_that_are_missing_at_the_end(copies, missing):
    """An ISO ends with them: what is not there is not right for that."""
    copy = copies()
    copy.target.write_bytes(WHOLE[:-missing])
    status, said = copy.repair()
    assert (status, copy.target.read_bytes() == WHOLE) == (0, True), said


def test_a_source_that_goes_on_behind_the_iso(copies):
    """As a stick does."""
    copy = copies()
    copy.target.write_bytes(after([Damage("bit", SIZE - 1, 1)]))
    copy.source.write_bytes(after([Damage("longer", 0, 5000)]))
    status, said = copy.repair()
    assert (status, copy.target.read_bytes() == WHOLE) == (0, True), said


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.parametrize("at", [10 * BLOCK + 5, SIZE - 1, 32810])
def test_what_cannot_be_read(copies, at, shell):
    """A bad sector of the medium is written again; one of a source is left to another one."""
    copy, third = copies(), None
    lines = repairs.UNREADABLE.format(file="/dev/fd/4", at=at)
    copy.target.write_bytes(WHOLE)
    environment = repairs.fake_dd(copy.folder / "bin", lines)
    status, said = copy.repair("--dry-run", shell=shell, environment=environment)
    first = at // BLOCK * BLOCK
    last = min(first + BLOCK, SIZE) - 1
    assert f"damaged    bytes {first} to {last}\nwould be repaired" in said
    status, said = copy.repair(shell=shell, environment=environment)
    assert (status, copy.target.read_bytes() == WHOLE) == (0, True), said
    before = after([Damage("garbage", at - 3000, 6000)])
    copy.target.write_bytes(before)
    third = copy.folder / "third.iso"
    third.write_bytes(WHOLE)
    lines = repairs.UNREADABLE.format(file=copy.source, at=at)
    environment = repairs.fake_dd(copy.folder / "bin", lines)
    status, said = copy.repair(shell=shell, environment=environment)
    assert (status, f"still bad  bytes {first} to {last}\n" in said) == (CHANGED, True), said
    status, said = copy.repair("--from", third, shell=shell, environment=environment)
    assert (status, copy.target.read_bytes() == WHOLE) == (0, True), said
    assert f"bytes {first} to {last}, from {third}" in said


def test_a_stick_that_keeps_nothing(copies):
    """What was written is read again before anything is said to be well."""
    copy, before = copies(), after([Damage("zeros", 20000, 4096)])
    copy.target.write_bytes(before)
    lines = '[ "${output:-}" != /dev/fd/4 ] || exec cat >/dev/null'
    status, said = copy.repair(environment=repairs.fake_dd(copy.folder / "bin", lines))
    assert (status, "does not keep what was written to it" in said) == (CHANGED, True), said
    assert copy.target.read_bytes() == before
