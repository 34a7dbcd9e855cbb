"""What the Salt master asks of one minion, and what came of it. Speaks through Salt's LocalClient.

Jobs end with an answer, get lost with a minion that starts anew, or take too long. Salt asks the
minion itself whether a job goes on, so a lost one is known as that after less than a minute.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import salt.client
from salt.exceptions import CommandExecutionError

# Seconds: without an answer until the minion is asked whether it works on it, and for that answer.
QUIET, SIGN = 15, 30
PING = 5  # seconds for one that only has to say that it is there
FIRST_PINGS = (1, 2)  # seconds: one that starts misses what it is asked before it listens
PAUSE = 0.1  # second between two looks at Salt's event bus
LONGEST = 1800  # seconds that a function may take: packages come over the network of the site
LONGEST_STATES = 3600  # seconds that states may take
START = 180  # seconds for a minion that starts
SHOWN = 500  # characters of a reason


def ask(
    minion: str,
    function: str,
    arguments: Sequence[Any] = (),
    options: dict[str, Any] | None = None,
    longest: float = LONGEST,
    patience: tuple[float, float] = (QUIET, SIGN),
) -> dict[str, Any]:
    """Have a minion call a function.

    :param options: what the function is given by name.
    :param longest: seconds.
    :param patience: seconds as QUIET and SIGN.
    :return: ``answer``; or ``lost``, a sentence, when the minion does not work on it.
    :raises CommandExecutionError: it failed there, or goes on for too long.
    """
    client = salt.client.get_local_client(mopts=__opts__)
    until = time.monotonic() + longest
    said = client.cmd_iter_no_block(
        [minion],
        function,
        list(arguments),
        timeout=patience[0],
        tgt_type="list",
        kwarg=options or {},
        gather_job_timeout=patience[1],
    )
    try:
        for found in said:
            if found and minion in found:
                return {"answer": _answer(minion, function, found[minion])}
            if time.monotonic() > until:
                reason = f"{minion} has worked on {function} for {longest:.0f} s and goes on"
                raise CommandExecutionError(reason)
            time.sleep(PAUSE)
    finally:
        said.close()
        client.destroy()
    return {"lost": f"The minion of {minion} did not return from {function}"}


def value(minion: str, function: str, *arguments: Any, **options: Any) -> Any:
    """Return what a function of a minion does, as ``ask``.

    :raises CommandExecutionError: also when the minion did not return.
    """
    found = ask(minion, function, arguments, options)
    if "lost" in found:
        raise CommandExecutionError(f"{found['lost']}: is the machine up, and its minion?")
    return found["answer"]


def ask_all(minions: Sequence[str], function: str) -> dict[str, dict[str, Any]]:
    """Have minions call a function, all at the same time.

    :return: of each ``answer``, with the seconds since 1970 between which it came about (``after``,
        ``before``); or ``problem``, a sentence.
    """
    found: dict[str, dict[str, Any]] = {
        minion: {"problem": f"The minion of {minion} did not return from {function}"}
        for minion in minions
    }
    client = salt.client.get_local_client(mopts=__opts__)
    until, after = time.monotonic() + LONGEST, time.time()
    said = client.cmd_iter_no_block(
        list(minions), function, timeout=QUIET, tgt_type="list", gather_job_timeout=SIGN
    )
    try:
        for one in said:
            for minion, answer in (one or {}).items():
                found[minion] = {"after": after, "before": time.time()}
                try:
                    found[minion]["answer"] = _answer(minion, function, answer)
                except CommandExecutionError as error:
                    found[minion] = {"problem": str(error)}
            if time.monotonic() > until:
                break
            time.sleep(PAUSE)
    finally:
        said.close()
        client.destroy()
    return found


def await_answer(minion: str, longest: float = START) -> None:
    """Wait until a minion answers.

    :raises CommandExecutionError: it does not.
    """
    until = time.monotonic() + longest
    for seconds in itertools.chain(FIRST_PINGS, itertools.repeat(PING)):
        if "lost" not in ask(minion, "test.ping", patience=(seconds, seconds)):
            return
        if time.monotonic() > until:
            raise CommandExecutionError(
                f"The minion of {minion} has not answered for {longest:.0f} s"
            )


def apply(minion: str, saltenv: str, *names: str) -> dict[str, Any]:
    """Apply states, or the highstate when none is named.

    A minion whose package or configuration changes starts anew and forgets what it did: it is asked
    once more. One that applies states already does so to the end first.

    :return: ``changed`` and ``comment``.
    :raises CommandExecutionError: with the first state that failed and why.
    """
    options = {"saltenv": saltenv, "queue": True}
    arguments = [",".join(names)] if names else []
    found = ask(minion, "state.apply", arguments, options, LONGEST_STATES)
    if "lost" in found:
        await_answer(minion)
        found = ask(minion, "state.apply", arguments, options, LONGEST_STATES)
    if "lost" in found:
        raise CommandExecutionError(f"{found['lost']}, twice")
    return summary(minion, found["answer"])


def summary(minion: str, results: Any) -> dict[str, Any]:
    """Say what states did.

    :raises CommandExecutionError: one failed, or none was tried.
    """
    if not isinstance(results, dict):
        said = " ".join(map(str, results)) if isinstance(results, list) else str(results)
        raise CommandExecutionError(f"{minion} could not apply states: {_short(said)}")
    ordered = sorted(results.values(), key=lambda result: result["__run_num__"])
    failed = [result for result in ordered if result["result"] is False]
    # Those that were only not tried, because another failed, say nothing of their own.
    causes = [result for result in failed if "requisite failed" not in result["comment"]] or failed
    if causes:
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        reason = f"{_short(causes[0]['comment'])}{others}"
        raise CommandExecutionError(f'{minion}, state "{causes[0]["__id__"]}": {reason}')
    changed = sum(1 for result in ordered if result["changes"])
    return {"changed": changed, "comment": f"{len(results)} states, {changed} changed"}


def _answer(minion: str, function: str, said: dict[str, Any]) -> Any:
    """Return what a minion said, unless that it failed; states say more than their code."""
    answer = said["ret"]
    if said.get("retcode") and not (function == "state.apply" and isinstance(answer, (dict, list))):
        lines = [line for line in str(answer).splitlines() if line.strip()] or ["no reason given"]
        # The last line of a traceback is the error; before its text is its class.
        raised = "Traceback (most recent call last)" in str(answer)
        reason = lines[-1].partition(": ")[2] or lines[-1] if raised else " ".join(lines)
        raise CommandExecutionError(f"{minion}, {function}: {_short(reason)}")
    return answer


def _short(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:SHOWN] or "it gave no reason"
