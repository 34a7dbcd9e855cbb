"""Pages of a list: ``n`` and ``last`` of the distribution specification, "Listing Tags".

nginx cannot count, but a regular expression can take a fixed number of elements off a list.
So a page is put together from the decimal digits of ``n``: hundreds, tens, ones. A page has
at most 999 elements; the specification allows fewer than asked for if a Link says where it
goes on. What is not served: ``last`` that is no element of the list (its place in the order
would have to be found by comparing).
"""

from __future__ import annotations

from .syntax import VARIABLE, block, json_error

LIST = f"{VARIABLE}_list"  # elements in quotes, a comma behind each; empty once it is used up
PAGE = f"{VARIABLE}_page"
_NEXT, _COUNT, _TEXT = (f"{VARIABLE}_{name}" for name in ("next", "count", "text"))
_ITEM = '"[^"]*",'


def paged(address: str, before: str, after: str) -> list[str]:
    """Return what answers with a page of the list: ``before``, the page, ``after``."""
    bad_last = json_error("UNSUPPORTED", "last is not an element of this list")
    bad_number = json_error("UNSUPPORTED", "n is not a number")
    rest = f"(?<{LIST[1:]}>.*)"
    return [
        f"add_header Link {_NEXT};",
        f"set {_NEXT} '';",
        f"set {PAGE} '';",
        f'set {_TEXT} "$arg_last {LIST}";',
        block(
            f'if ({_TEXT} !~ \'^(?:([^ "]+) (?:{_ITEM})*"\\1",| ){rest}$\')',
            f"return 400 '{bad_last}';",
        ),
        block("if ($arg_n !~ '^[0-9]*$')", f"return 400 '{bad_number}';"),
        f'set {_COUNT} "00$arg_n";',
        block(f"if ({_COUNT} ~ '[1-9][0-9]{{3}}')", f"set {_COUNT} 999;"),
        block("if ($arg_n = '')", f"set {PAGE} {LIST};", f"set {LIST} '';"),
        *_take("[5-9][0-9]{2} " + _items(500)),
        *_take("|".join(f"[{one}{one + 5}][0-9]{{2}} {_items(100 * one)}" for one in range(1, 5))),
        *_take("|".join(f"{one}[0-9] {_items(10 * one)}" for one in range(1, 10))),
        *_take("|".join(f"{one} {_items(one)}" for one in range(1, 10))),
        f'set {_TEXT} "{PAGE} {LIST}";',
        block(
            f'if ({_TEXT} ~ \'"([^"]*)", .\')',
            f"set {_NEXT} '<{address}?n=$arg_n&last=$1>; rel=\"next\"';",
        ),
        block(f"if ({PAGE} ~ '^(.*),$')", f"set {PAGE} $1;"),
        f"return 200 '{before}{PAGE}{after}';",
    ]


def _items(number: int) -> str:
    return f"((?:{_ITEM}){{0,{number}}}+)"


def _take(choices: str) -> list[str]:
    """Move as many elements from the list to the page as one of the choices says."""
    return [
        f'set {_TEXT} "{_COUNT} {LIST}";',
        block(
            f"if ({_TEXT} ~ '^[0-9]*(?|{choices})(.*)$')",
            f'set {PAGE} "{PAGE}$1";',
            f"set {LIST} $2;",
        ),
    ]
