from buildchain.core import events


def test_notes_progress_and_transcript(recorded):
    events.note("look")
    events.progress("packages", 2, 5, "files")
    events.transcript("100% sure")
    assert recorded.notes == ["look"]
    assert recorded.progress == [events.Progress("packages", 2, 5, "files")]
    assert recorded.lines == ["look", "packages 2/5 files", "100% sure"]


def test_summaries_are_told_by_subject(recorded):
    events.summary("tests", "all are well")
    assert recorded.lines == ["all are well"]
    assert recorded.notes == [], "not before the end"
