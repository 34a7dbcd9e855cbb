"""A Debian archive of packages whose content is their file name, behind a fake apt-get."""

# An archive of packages whose content is their file name. FAIL names calls that fail once.
APT = """
import hashlib, json, pathlib, re
state = pathlib.Path({state!r})
versions = json.loads((state / "versions").read_text())
def deb(name):
    name = re.sub("[^a-z0-9+.-]", "", name)
    version = versions.get(name, "1:2.0-1").replace(":", "%3a")
    file = f"{{name}}_{{version}}_amd64.deb"
    return file, hashlib.sha256(file.encode()).hexdigest()
def fail(kind):
    mark = state / kind
    if mark.exists():
        left = int(mark.read_text() or 1) - 1
        mark.write_text(str(left)) if left else mark.unlink()
        print(f"E: no {{kind}} today")
        sys.exit(100)
if argv[0] == "indextargets":
    print((state / "targets").read_text(), end="")
elif argv[-1] == "update":
    fail("update")
elif "source" in argv:
    fail("source")
    name, _, version = argv[-1].partition("=")
    version = version or versions.get("source", "1.0-1")
    pathlib.Path(name.partition("/")[0] + f"_{{version}}.dsc").touch()
    for file in state.glob("sources/*"):
        pathlib.Path(file.name).write_bytes(file.read_bytes())
elif "download" in argv:
    for wanted in argv[argv.index("download") + 1:]:
        name, version = wanted.split(":amd64=")
        file, sha = deb(name)
        if versions.get(name, "1:2.0-1") != version:
            print(f"E: Version '{{version}}' for '{{name}}' was not found")
            sys.exit(100)
        print(f"Get:1 http://deb {{name}}")
        pathlib.Path(file).write_text((state / "evil").read_text() if
                                      (state / "evil").exists() else file)
elif "--simulate" in argv:
    print((state / "unmet").read_text() if (state / "unmet").exists() else "")
    sys.exit(100 if (state / "unmet").exists() else 0)
else:
    names = argv[argv.index("install") + 1:]
    conf = pathlib.Path(argv[1]).read_text()
    archives = pathlib.Path(re.search('Dir::Cache::archives "(.*)"', conf)[1])
    if "--print-uris" in argv:
        fail("resolve")
        for name in names:
            file, sha = deb(name)
            print(f"'http://deb/{{file}}' {{file}} {{len(file)}} SHA256:{{sha}}")
    else:
        fail("download")
        for name in names:
            file, sha = deb(name)
            if not (archives / file).exists():
                print(f"Get:1 http://deb {{name}}")
                (archives / file).write_text((state / "evil").read_text() if
                                             (state / "evil").exists() else file)
"""


class Archive:
    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        (folder / "sources").mkdir(parents=True)
        self.set("versions", "{}")
        self.set("targets", "http://deb/|bookworm|main|Debian|deb\n")
        programs("apt-get", APT.format(state=str(folder)))

    def set(self, name, text):
        (self.folder / name).write_text(text)

    def verbs(self):
        return [
            "print" if "--print-uris" in argv else "download" if "--download-only" in argv
            and "install" in argv else argv[-1] if argv[-1] == "update" else argv[0]
            for argv in self.programs.calls("apt-get")
        ]  # fmt: skip
