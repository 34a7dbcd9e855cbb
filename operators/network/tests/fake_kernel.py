"""A kernel in memory that reads the lines our program writes, and is as strict as the real one.

What is there already cannot be added, what is not there cannot be deleted, a way through a device
needs the device, and what others have made stays theirs.
"""

from __future__ import annotations

import json
import re

from metalk8s_pod_network.kernel import KernelError
from metalk8s_pod_network.settings import DEVICE, PROTOCOL

PLUMBING = {"route", "rule", "link", "address", "neighbour", "fdb"}


class FakeKernel:
    """``run`` takes the place of the programs. ``lines`` has what changed something."""

    def __init__(self, links, others=()):
        """Take interfaces, and routes that somebody else has made."""
        self.links = [*links]
        self.routes = {(route["dst"], route["table"]): route for route in others}
        self.rules, self.neighbours, self.forwarding = {}, {}, {}
        self.table = None
        self.policies = []
        # somebody else has chains of our names, which hook elsewhere
        self.alien = False
        self.lines = []

    def run(self, argv, text=""):
        if "-batch" in argv:
            return self._batch(text)
        if argv[0] == "nft":
            return self._nft(argv, text)
        shown = {
            "address": lambda: self.links,
            "route": lambda: [r for r in self.routes.values() if r["protocol"] == str(PROTOCOL)],
            "rule": lambda: [{"priority": 0, "src": "all", "table": "255"}, *self.rules.values()],
            "neighbour": lambda: list(self.neighbours.values()),
            "fdb": lambda: list(self.forwarding.values()),
        }
        [what] = [word for word in argv if word in shown]
        if "dev" in argv:
            self._device(argv[-1])
        return json.dumps(shown[what]())

    def state(self):
        """Return everything, comparable."""
        return json.loads(
            json.dumps(
                {
                    "links": self.links,
                    "routes": sorted(self.routes.values(), key=str),
                    "rules": sorted(self.rules.values(), key=str),
                    "neighbours": sorted(self.neighbours.values(), key=str),
                    "forwarding": sorted(self.forwarding.values(), key=str),
                    "table": self.table,
                },
                sort_keys=True,
            )
        )

    def _batch(self, text):
        problems = []
        for line in text.splitlines():
            words = line.split()
            assert words[0] in PLUMBING, line
            self.lines.append(line)
            try:
                getattr(self, f"_{words[0]}")(words[1], words[2:])
            except KernelError as error:
                problems.append(f"{line}: {error}")
        if problems:
            raise KernelError("; ".join(problems))
        return ""

    def _device(self, name):
        found = [link for link in self.links if link["ifname"] == name]
        if not found:
            raise KernelError(f"Cannot find device {name}")
        return found[0]

    def _route(self, verb, words):
        kind, destination, *rest = words
        onlink = rest[-1:] == ["onlink"]
        told = dict(zip(rest[::2], rest[1::2], strict=False))
        if destination.endswith("/32"):
            destination = destination.removesuffix("/32")
        key = (destination, told["table"])
        if verb == "delete":
            there = self.routes.get(key)
            if there is None or there["protocol"] != told["proto"]:
                raise KernelError("No such process")
            del self.routes[key]
            return
        if verb == "add" and key in self.routes:
            raise KernelError("File exists")
        if "dev" in told and "UP" not in self._device(told["dev"])["flags"]:
            raise KernelError("Network is down")
        route = {"dst": destination, "protocol": told["proto"], "flags": ["onlink"] * onlink}
        route["table"] = told["table"]
        if kind != "unicast":
            route["type"] = {"unreachable": "7"}[kind]
        names = (("via", "gateway"), ("src", "prefsrc"), ("dev", "dev"))
        route |= {ours: told[theirs] for theirs, ours in names if theirs in told}
        owned = [entry["local"] for link in self.links for entry in link["addr_info"]]
        if "src" in told and told["src"] not in owned:
            raise KernelError("Invalid prefsrc address")
        self.routes[key] = route

    def _rule(self, verb, words):
        told = dict(zip(words[::2], words[1::2], strict=True))
        source, _, length = told["from"].partition("/")
        rule = {
            "priority": int(told["preference"]),
            "src": source,
            "srclen": int(length),
            "table": told["lookup"],
            "protocol": told["protocol"],
        }
        key = json.dumps(rule)
        if (key in self.rules) is (verb == "add"):
            raise KernelError("File exists" if verb == "add" else "No such file")
        if verb == "add":
            self.rules[key] = rule
        else:
            del self.rules[key]

    def _link(self, verb, words):
        if verb == "add":
            assert words[0] == DEVICE
            told = dict(zip(words[1:-1:2], words[2:-1:2], strict=True))
            if any(link["ifname"] == DEVICE for link in self.links):
                raise KernelError("File exists")
            data = {"id": int(told["id"]), "port": int(told["dstport"]), "local": told["local"]}
            self.links.append(
                {
                    "ifname": DEVICE,
                    "flags": [],
                    "mtu": int(told["mtu"]),
                    "address": told["address"],
                    "linkinfo": {"info_data": data},
                    "addr_info": [],
                }
            )
            return
        link = self._device(words[1])
        if verb == "delete":
            self.links.remove(link)
            self.neighbours.clear()
            self.forwarding.clear()
            self.routes = {k: r for k, r in self.routes.items() if r.get("dev") != DEVICE}
        elif words[2:] == ["up"]:
            link["flags"] = ["UP"]
        elif words[2] == "mtu":
            link["mtu"] = int(words[3])

    def _address(self, verb, words):
        assert (verb, words[1]) == ("add", "dev")
        local, _, length = words[0].partition("/")
        entry = {"family": "inet", "local": local, "prefixlen": int(length), "scope": "global"}
        self._device(words[2])["addr_info"].append(entry)

    def _neighbour(self, verb, words):
        self._device(DEVICE)
        if verb == "delete":
            if words[0] not in self.neighbours:
                raise KernelError("No such file")
            del self.neighbours[words[0]]
            return
        entry = {"dst": words[0], "lladdr": words[2], "state": ["PERMANENT"]}
        self.neighbours[words[0]] = entry

    def _fdb(self, verb, words):
        self._device(DEVICE)
        if verb == "delete":
            if words[0] not in self.forwarding:
                raise KernelError("No such file")
            del self.forwarding[words[0]]
            return
        self.forwarding[words[0]] = {"mac": words[0], "dst": words[-1], "flags": ["self"]}

    def _policies(self, argv, text):
        """Keep the lines of the table of policies; what they do is the real kernel's to say."""
        if "list" in argv:
            return "\n".join(self.policies)
        self.lines += text.splitlines()
        if self.alien and "delete table" not in text:
            raise KernelError("Device or resource busy")
        for line in text.splitlines():
            self.policies = [] if line == "delete table ip metalk8s_policies" else self.policies
            self.policies = [*self.policies, line]
        return ""

    def _nft(self, argv, text):
        if "-j" not in argv:
            return self._policies(argv, text)
        if argv[-1] == "tables":
            own = [{"table": {"family": "ip", "name": "metalk8s_pods"}}] * bool(self.table)
            own += [{"table": {"family": "ip", "name": "metalk8s_policies"}}] * bool(self.policies)
            return json.dumps({"nftables": [{"table": {"family": "ip", "name": "nat"}}, *own]})
        if argv[-1] == "metalk8s_policies":
            lines = "\n".join(self.policies)
            found = re.findall(r"^add chain ip metalk8s_policies (\w+)", lines, re.MULTILINE)
            return json.dumps({"nftables": [{"chain": {"name": name}} for name in found]})
        if "list" in argv:
            return json.dumps({"nftables": [{"metainfo": {}}, *self.table]})
        for command in json.loads(text)["nftables"]:
            self.lines.append(f"nft {json.dumps(command)}")
            ((verb, item),) = command.items()
            ((kind, value),) = item.items()
            if kind == "table":
                if verb == "delete" and self.table is None:
                    raise KernelError("No such file")
                self.table = None if verb == "delete" else self.table or [item]
            elif kind == "element":
                [own] = [i["set"] for i in self.table if "set" in i]
                members = set(own.get("elem", []))
                change = set(value["elem"])
                if verb == "delete" and not change <= members:
                    raise KernelError("No such file")
                own["elem"] = sorted(members | change if verb == "add" else members - change)
            else:
                self.table.append(item)
        return ""
