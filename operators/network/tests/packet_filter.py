"""Reads the table as the kernel would: the few words of nftables that our program writes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

FIELDS = {"ct original ip saddr": "began", "ct reply ip saddr": "asked"}


def passes(table, began, asked, protocol, port):
    """Tell whether a packet of a connection is let through by both base chains."""
    return all(
        lets(table, way, began, asked, protocol, port)
        for way in ("egress", "ingress")
        if way in table.chains
    )


def lets(table, way, began, asked, protocol, port):
    """Tell whether one of the base chains lets it through."""
    packet = {"began": began, "asked": asked, "protocol": protocol, "port": port}
    return _chain(table, way, packet) != "drop"


def _chain(table, name, packet):
    for line in table.chains[name]:
        verdict = _rule(table, line, packet)
        word, _, target = (verdict or "").partition(" ")
        if word in ("goto", "jump"):
            found = _chain(table, target, packet)
            if found or word == "goto":
                return found
        elif word:
            return word
    return None


def _rule(table, line, packet):
    if line.startswith(("type filter", "ct state")):
        return None  # policy accept; packets of connections that are well
    words = line.removesuffix("counter drop").strip()
    if words in ("accept", "", "drop"):
        return words or "drop"
    if " . " in words:
        pair = f"{packet['began']} . {packet['asked']}"
        return "accept" if pair in table.collections["itself"].entries else None
    for field, key in FIELDS.items():
        if words.startswith(f"{field} vmap @"):
            return _lookup(table.collections[words.partition("@")[2]], packet[key])
        if words.startswith(f"{field} {{"):
            places = words.partition("{")[2].rstrip(" }").split(",")
            is_in = any(IPv4Address(packet[key]) in IPv4Network(one.strip()) for one in places)
            return "drop" if is_in else None
    assert words.startswith("meta l4proto "), line
    _, _, protocol, *rest = words.split()
    assert rest[-1] == "accept", line
    if int(protocol) != packet["protocol"]:
        return None
    ports = "".join(rest[3:-1]).strip("{}")
    assert ports or rest == ["accept"], line
    return "accept" if not ports or str(packet["port"]) in ports.split(",") else None


def _lookup(collection, address):
    if "interval" not in collection.flags:
        return collection.entries.get(address)
    found = []
    for span, verdict in collection.entries.items():
        first, _, last = span.partition("-")
        if IPv4Address(first) <= IPv4Address(address) <= IPv4Address(last or first):
            found.append(verdict)
    assert len(found) <= 1, "intervals overlap: the kernel would not take them"
    return found[0] if found else None
