# SPDX-License-Identifier: OLDAP-2.8
"""Reads the recipes for Spack and EasyBuild as these programs do, without these programs.

usage: recipes_read.py spack FILE +VARIANT|~VARIANT...   the arguments of configure
       recipes_read.py spack FILE dependencies           the packages that it names
       recipes_read.py easybuild FILE FIELD              one field; templates are filled in

This script defines the directives that Spack gives a recipe: a directive that Spack lacks is a NameError.
"""
import sys
import types

TEMPLATES = {"name": "lmdbio", "version": "0.2.0", "installdir": "/opt/lmdbio", "builddir": "/build",
             "pyshortver": "3.13"}


def spack_recipe(path):
    found = {"depends_on": [], "variant": [], "version": [], "license": [], "extends": []}
    api = types.ModuleType("spack.package")
    api.AutotoolsPackage = type("AutotoolsPackage", (), {})
    for name, calls in found.items():
        setattr(api, name, lambda *words, _calls=calls, **options: _calls.append((words, options)))
    spack = types.ModuleType("spack")
    sys.modules.update({"spack": spack, "spack.package": api})
    names = {"python_platlib": "/opt/lmdbio/lib/python3.13/site-packages"}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), names)
    return names["Lmdbio"], found


def spack(path, *words):
    recipe, found = spack_recipe(path)
    assert [words for words, _ in found["version"]] == [("main",)]
    named = found["depends_on"] + found["extends"]
    variants = {words[0] for words, _ in found["variant"]}
    for _, options in named:
        assert options.get("when", "+mpi")[1:] in variants, options
    if words == ("dependencies",):
        print("\n".join(sorted(words[0].split("@")[0] for words, _ in named)))
        return
    package = recipe()
    package.spec = types.SimpleNamespace(satisfies=lambda word: word in words)
    print("\n".join(package.configure_args()))


def easybuild(path, field):
    fields = {"SHLIB_EXT": "so"}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), fields)
    expected = "%s-%s-%s-%s.eb" % (fields["name"], fields["version"], fields["toolchain"]["name"],
                                   fields["toolchain"]["version"])
    assert path.endswith("/" + expected), expected
    assert len(fields["checksums"]) == len(fields["sources"])
    value = fields[field]
    if field in ("dependencies", "builddependencies"):
        value = "\n".join(name for name, _ in value)
    elif isinstance(value, dict):
        value = "\n".join(sum(value.values(), []))
    elif isinstance(value, list):
        value = "\n".join(value)
    print(value % TEMPLATES)


{"spack": spack, "easybuild": easybuild}[sys.argv[1]](*sys.argv[2:])
