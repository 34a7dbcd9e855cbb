"""Scripts of faked programs that more than one module of tests needs."""

from __future__ import annotations

# Writes a small but real image of a tree, as xorrisofs would; DAMAGE leaves a file out.
MKISOFS = """
if "--version" in argv:
    print({version!r})
    sys.exit(0)
import io, pathlib, pycdlib
words = argv[: argv.index("--")] if "--" in argv else argv
root, output = pathlib.Path(words[-1]), argv[argv.index("-output") + 1]
print("xorriso : UPDATE :  50.00% done")
image = pycdlib.PyCdlib()
image.new(interchange_level=4, rock_ridge="1.09", vol_ident=argv[argv.index("-V") + 1])
places, number = {{root: ""}}, 0
for path in sorted(root.rglob("*")):
    number += 1
    short = f"{{places[path.parent]}}/{{number}}"
    if path.is_dir():
        image.add_directory(short, rr_name=path.name)
        places[path] = short
    elif path.name != {damage!r}:
        image.add_file(str(path), short, rr_name=path.name)
image.write(output)
image.close()
"""


def mkisofs(*, version: str = "xorriso 1.5.4", damage: str = "") -> str:
    """Return the script of a mkisofs; ``damage`` is the name of a file that it forgets."""
    return MKISOFS.format(version=version, damage=damage)


# An export is what the fake engine (or a test) left in FOLDER under the image's reference.
SKOPEO = """
if "--version" in argv:
    print("skopeo version 9.9.9")
    sys.exit(0)
import pathlib, shutil
source = argv[-2].removeprefix("docker-daemon:").replace("/", "_")
shutil.copytree(pathlib.Path({folder!r}) / source, argv[-1].removeprefix("dir:"))
"""

# The metadata of packages that are called after what they are.
CREATEREPO = """
if "--version" in argv:
    print("Version: 9.9.9")
    sys.exit(0)
import gzip, hashlib, pathlib
folder = pathlib.Path(argv[-1])
(folder / "repodata").mkdir()
def rpm(path):
    name, version, release = ("-".join([path.stem, "1", "1"])).rsplit("-", 4)[:3]
    if path.stem.count("-") > 1:
        name, version, release = path.stem.rsplit("-", 2)
    release, _, arch = release.rpartition(".") if "." in release else (release, "", "noarch")
    return (f"<package type='rpm'><name>{name}</name><arch>{arch}</arch>"
            f"<version epoch='0' ver='{version}' rel='{release}'/>"
            f"<checksum>{hashlib.sha256(path.read_bytes()).hexdigest()}</checksum>"
            f"<size package='{path.stat().st_size}'/><location href='{path.name}'/>"
            "<format><rpm:license>MIT</rpm:license></format></package>")
space = "xmlns='http://linux.duke.edu/metadata/common' xmlns:rpm='http://linux.duke.edu/metadata/rpm'"
text = f"<metadata {space}>{''.join(map(rpm, sorted(folder.glob('*.rpm'))))}</metadata>"
primary = folder / "repodata" / "primary.xml.gz"
primary.write_bytes(gzip.compress(text.encode(), mtime=0))
digest = hashlib.sha256(primary.read_bytes()).hexdigest()
(folder / "repodata" / "repomd.xml").write_text(
    "<repomd xmlns='http://linux.duke.edu/metadata/repo'><data type='primary'>"
    f"<checksum>{digest}</checksum><location href='repodata/{primary.name}'/></data></repomd>")
"""

# Indexes of packages whose content is the name they have in the archive.
FTPARCHIVE = """
if "--version" in argv:
    print("apt 9.9.9")
    sys.exit(0)
import hashlib, pathlib
folder = pathlib.Path(argv[-1])
files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
sha = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
if "release" in argv:
    print("Suite: bookworm\\nSHA256:")
    for path in files:
        print("", sha(path), path.stat().st_size, path.relative_to(folder).as_posix())
for path in files if "packages" in argv else ():
    first = path.read_text().split("\\n")[0]
    name, version, arch = (first.removesuffix(".deb").split("_") + ["1", "all"])[:3]
    fields = {"Package": name, "Version": version.replace("%3a", ":"), "Architecture": arch,
              "Filename": path.as_posix(), "Size": path.stat().st_size, "SHA256": sha(path)}
    print("\\n".join(f"{key}: {value}" for key, value in fields.items()) + "\\n")
"""

# A package provides its name and needs nothing.
RPM = """
if "--version" in argv:
    print("RPM version 9.9.9")
elif "PROVIDE" in argv[argv.index("--queryformat") + 1]:
    for path in argv[argv.index("--package") + 1:]:
        name = os.path.basename(path).rsplit("-", 2)[0]
        print(name, name)
"""

# A package of Go sources holds one file, called after it. Asked for fields hundreds of times.
DPKG_DEB = """
if argv[0] == "--field":
    stem = os.path.splitext(os.path.basename(argv[-1]))[0]
    sys.exit(print(f"Package: {stem}\\nVersion: 1"))
name = os.path.basename(argv[-2])
stem = os.path.splitext(name)[0]
for path, text in ((f"usr/share/gocode/src/{stem}.go", name),
                   (f"usr/share/doc/{stem}/copyright", name), (f"usr/bin/{stem}", "")):
    path = os.path.join(argv[-1], path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as stream:
        stream.write(text)
"""
