# Prints each function that a file compiled for one instruction set shares with other files: the
# linker may keep that copy for all of them, and a lesser machine would run it.
# SPDX-License-Identifier: Apache-2.0
#
# usage: python3 check_isa_symbols.py ARCHIVE [NM]
import re
import subprocess
import sys

MEMBER = re.compile(r"_(avx2|avx512|avx512bf16|amx)\.cc\.o")
# A template over the registers of one instruction set is only made in files compiled for it.
OWN_TYPE = re.compile(r"\bzonda::kernels::(\(anonymous namespace\)::)?(Avx2|Avx512)\b")


def shared_functions(listing):
    """(member, name) of each weak function in `nm -A -C` that does not name its instruction set."""
    for line in listing.splitlines():
        member = MEMBER.search(line)
        symbol = re.search(r" ([Ww]) (.+)$", line)
        if member and symbol and not symbol.group(2).startswith("__"):
            if not OWN_TYPE.search(symbol.group(2)):
                yield member.group(0), symbol.group(2)


def main():
    nm = sys.argv[2] if len(sys.argv) > 2 else "nm"
    listing = subprocess.run([nm, "-A", "-C", sys.argv[1]], check=True,
                             stdout=subprocess.PIPE).stdout.decode()
    if not MEMBER.search(listing):
        sys.exit(f"{sys.argv[1]} holds no file of an instruction set")
    found = list(shared_functions(listing))
    for member, name in found:
        print(f"{member}: {name}")
    sys.exit(f"{len(found)} shared functions" if found else 0)


if __name__ == "__main__":
    main()
