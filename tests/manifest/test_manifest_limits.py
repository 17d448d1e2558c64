"""Limits for untrusted manifests: YAML and templates; each error names the setting to raise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import UndefinedError

from tap_core.exceptions import LimitExceededError
from tap_core.limits.bounded_operations import TEMPLATE_SECONDS
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interpolation import compile_template
from tap_core.manifest.lint import lint_manifest
from tap_core.manifest.loader import read_manifest
from tap_core.schema.yaml import load_yaml
from tests.http.server import page, serving
from tests.manifest.running import manifest, stream
from tests.process_memory import read_peak_memory, reset_peak_memory

LEVELS = range(1, 30)


def make_nested_aliases() -> str:
    lists = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in LEVELS]
    return "\n".join(["a0: &a0 [x]", *lists])


def make_nested_merges() -> str:
    maps = [f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 10)}]" for n in LEVELS]
    return "\n".join(["a0: &a0 {x: 1}", *maps])


def make_nested_references() -> str:
    lists = [
        f"  a{n}: [{', '.join([f'{chr(39)}#/definitions/a{n - 1}{chr(39)}'] * 10)}]" for n in LEVELS
    ]
    return "\n".join(["definitions:", "  a0: {x: 1}", *lists, "streams: '#/definitions/a29'"])


@pytest.mark.parametrize(
    "text", [make_nested_aliases(), make_nested_merges(), make_nested_references()]
)
def test_exponentially_expanding_manifest_is_rejected(tmp_path: Path, text: str):
    """SEC12: a manifest that expands exponentially is refused."""
    with pytest.raises(ManifestError, match="raise TAP_CORE_YAML_NODES"):
        _ = read_manifest(text).tree
    file = tmp_path / "manifest.yaml"
    file.write_text(text)
    assert any("TAP_CORE_YAML_NODES" in str(problem) for problem in lint_manifest(file).problems)


@pytest.mark.parametrize("text", [make_nested_aliases(), make_nested_merges()])
def test_exponentially_expanding_yaml_document_is_rejected(text: str):
    with pytest.raises(LimitExceededError, match="raise TAP_CORE_YAML_NODES"):
        load_yaml(text)


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "- " * 100_000 + "x", "{a: " * 200_000])
def test_deeply_nested_document_is_rejected(text: str):
    """PyYAML 6.0.4 has a limit of its own for brackets: 1,000 levels."""
    message = "100 levels deep|exceeded maximum nesting depth"
    with pytest.raises(ManifestError, match=message):
        read_manifest(text)
    with pytest.raises((LimitExceededError, yaml.YAMLError), match=message):
        load_yaml(text)


def test_deeply_nested_json_with_a_control_character_is_rejected():
    """The control character lets the text be parsed as JSON instead of YAML."""
    with pytest.raises(ManifestError, match="this is not YAML"):
        read_manifest('{"check": ' + "[" * 3_000 + "\x01")


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [x]",
        "a: !!python/name:os.system",
        "a: !foo {b: 1}",
        "a: !foo [1]",
        "a: !foo x",
        "!foo a: 1",
        "a: !!set {b}",
        "a: !!omap [b: 1]",
        "a: !!binary aGFsbG8=",
    ],
)
def test_yaml_tags_are_rejected(text: str):
    """SEC12: tags are refused."""
    with pytest.raises(ManifestError, match=r"line 1: .* the tag .* is not known"):
        read_manifest(text)
    with pytest.raises(ValueError, match=r"the tag .* is not known"):
        load_yaml(text)


def test_aliases_and_core_tags_are_supported():
    document = read_manifest("a: &a {x: !!str 1}\nb: [*a, *a]\nc: {<<: *a, y: !!int 2}\n").raw
    assert document["b"] == [{"x": "1"}, {"x": "1"}]
    assert document["c"] == {"x": "1", "y": 2}


@pytest.mark.parametrize(
    "scalar",
    ["!!int", "!!int '-'", "!!int _", "!!int a", "!!bool maybe", "!!float ''", "!!float 1:x"],
)
def test_scalar_that_does_not_match_its_tag_is_rejected(scalar: str):
    """SEC21: a scalar that its tag does not fit is refused, with its line."""
    with pytest.raises(ManifestError, match=r"line 2: .* is not a valid (int|bool|float)"):
        read_manifest(f"b: 1\na: {scalar}\n")
    with pytest.raises(ValueError, match=r"(?s)is not a valid (int|bool|float).*line 2"):
        load_yaml(f"b: 1\na: {scalar}\n")


def test_invalid_timestamp_tag_is_rejected_outside_of_manifests():
    """SEC21: a manifest reads timestamps as strings."""
    with pytest.raises(ValueError, match="'soon' is not a valid timestamp"):
        load_yaml("a: !!timestamp soon")
    assert read_manifest("a: !!timestamp soon").raw == {"a": "soon"}


@pytest.mark.parametrize(
    "number", ["1" + ":1" * 1_000_000, "1" + ":1" * 500 + ".5", "0x" + "f" * 9_000, "9" * 5_000]
)
def test_very_long_number_is_rejected(number: str):
    """SEC21: a number in base 60 costs the square of its length."""
    with pytest.raises(
        ManifestError, match=r"line 1: .*(more than 4,300 characters|is not a valid float)"
    ):
        read_manifest(f"a: {number}")
    with pytest.raises(ValueError, match=r"more than 4,300 characters|is not a valid float"):
        load_yaml(f"a: !!{'float' if '.' in number else 'int'} {number}")


GROWING_VALUE = (
    "{% for i in record.many %}{% set ns.x = OP %}{% endfor %}{{ ns.x | string | length }}"
)
APPEND = "{% for i in record.many %}{% set _ = record.l.append(OP) %}{% endfor %}"
NESTED_TUPLES = (
    "{% set a = (0, 0) %}{% set b = (0, 1) %}" + "{% set a = (a, a) %}{% set b = (b, b) %}" * 40
)
"""Values with 2^40 items, which are few objects."""
NESTED_LISTS = (
    "{% set a = [0] %}{% set b = [1] %}"
    + (
        "{% set c = [] %}{% set _ = c.append(a) %}{% set _ = c.append(a) %}{% set a = c %}"
        "{% set c = [] %}{% set _ = c.append(b) %}{% set _ = c.append(b) %}{% set b = c %}"
    )
    * 40
)
EXCESSIVE_TEMPLATES = [
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '{:1000000000d}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w='1000000000') }}",
    "{{ 'a' * 10**9 }}",
    "{{ [0] * 10**8 }}",
    "{{ [[[0] * 3000] * 3000] * 3000 }}",
    "{{ (2**1000)**(2**20) }}",
    "{{ 'a' | center(1000000000) }}",
    "{{ 'a\nb' | indent(1000000000) }}",
    "{{ 'a b' | wordwrap(1, wrapstring='x' * 9000000) }}",
    "{{ ('a' * 9000) | replace('a', 'b' * 9000) }}",
    "{{ ('a' * 9000).replace('a', 'b' * 9000) }}",
    "{{ ('a' * 9000) | regex_replace('a', 'b' * 9000) }}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a'.encode().rjust(1000000000) }}",
    "{{ 'x'.zfill(1000000000) }}",
    "{{ '\t'.expandtabs(1000000000) }}",
    "{{ ('a' * 9000).translate({97: 'b' * 9000}) }}",
    "{{ (5).to_bytes(1000000000, 'big') }}",
    "{{ 'a' | attr('ljust')(1000000000) }}",
    "{{ ('b' * 9000).join(('c' * 9000) | list) }}",
    "{{ ('c' * 9000) | list | join('b' * 9000) }}",
    "{{ record.many | map('center', 100000) | list | length }}",
    "{{ [[1] * 1000] * 1000 | tojson(indent=1000000000) }}",
    "{{ record.many | batch(1000000000) | list }}",
    "{{ record.many | slice(1000000000) | list }}",
    "{{ 1.5 | round(1000000000) }}",
    "{{ ('a' * 900000) | wordwrap(1) }}",
    "{{ lipsum(n=1000000) }}",
    "{% set ns = namespace(x='ab') %}" + GROWING_VALUE.replace("OP", "ns.x ~ ns.x"),
    "{% set ns = namespace(x='ab') %}" + GROWING_VALUE.replace("OP", "ns.x + ns.x"),
    "{% set ns = namespace(x=[1]) %}" + GROWING_VALUE.replace("OP", "[ns.x, ns.x]"),
    "{% for i in record.many %}{{ 'x' * 1000000 }}{% endfor %}",
    "{% for i in record.many %}{% set _ = record.l.extend(record.l) %}{% endfor %}",
    "{% macro f(n) %}{{ f(n - 1) ~ f(n - 1) if n else 'x' }}{% endmacro %}{{ f(60) }}",
    "{% for a in record.many %}{% for b in record.many %}{% endfor %}{% endfor %}",
    "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
    "{{ (('a' * 27) ~ '!') | regex_search('(a|a)*$') }}",
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "{% for i in record.l %}" * 30 + "x" + "{% endfor %}" * 30,
    "{{ '" + "x" * 200_001 + "' }}",
    "{{ 3**2500000 // 3**1250000 > 0 }}",
    "{{ 3**2500000 % 3**1250000 > 0 }}",
    "{{ " + " + ".join(["3**99999 // 7**9999"] * 4_000) + " > 0 }}",
    NESTED_TUPLES + "{{ a == b }}",
    NESTED_TUPLES + "{{ a is eq(b) }}",
    NESTED_TUPLES + "{{ [a, b] | sort }}",
    NESTED_TUPLES + "{{ {}.get(a) }}",
    NESTED_TUPLES.replace("= (", "= [").replace(") %}", "] %}") + "{{ [b].index(a) }}",
    NESTED_LISTS + "{{ a in [b] }}",
    "{{ ('a' * 5000000) | select('in', 'b' * 9000000) | list }}",
    "{{ ('a' * 9000) | map(attribute='" + "0." * 50_000 + "0') | list }}",
    "{{ ('a' * 9000) | sort(attribute='" + "0," * 50_000 + "0') }}",
    "{{ ('a' * 9000000) | sort | length }}",
    "{{ ('a ' * 4000000) | title | length }}",
    "{{ ('a' * 9000000) | batch(1) | list }}",
    "{% for i in record.many %}{% set _ = record.l.append([" + "1," * 9_000 + "]) %}{% endfor %}",
    "{% set b = 'a' * 9000000 %}" + APPEND.replace("OP", "b[1:]"),
    "{% set s = '[' ~ '[],' * 3000000 ~ '1]' %}" + APPEND.replace("OP", "json_loads(s)"),
    "{{ ('€' * 9000000) | list | length }}",
    "{{ ('€,' * 4000000).split(',') | length }}",
    "{{ ('é' * 900000).encode('idna') }}",
    "{{ ('-' ~ 'a' * 900000).encode().decode('punycode') }}",
    "{{ ('é' * 9000000).encode('ascii', 'namereplace') }}",
    "{{ 1 .from_bytes(('a' * 9000000).encode(), 'big') is divisibleby(3**2500000) }}",
]


@pytest.mark.parametrize("text", EXCESSIVE_TEMPLATES, ids=lambda text: text[:40])
def test_template_with_excessive_output_or_time_is_rejected(
    text: str, monkeypatch: pytest.MonkeyPatch
):
    """SEC14: a template that needs excessive memory or time is refused."""
    monkeypatch.setitem(vars(TEMPLATE_SECONDS), "value", 0.5)
    reset_peak_memory()
    before = read_peak_memory()
    scope: dict[str, Any] = {"record": {"many": list(range(10_000)), "l": [1, 2, 3]}}
    with pytest.raises(ManifestError):
        compile_template(text).render(scope, {})
    assert read_peak_memory() - before < 600 << 20


def get_rendered_length(text: str) -> int:
    """Return the length that a template renders; 0 if it is refused or invalid."""
    try:
        return int(compile_template(text).render({}, {}) or 0)
    except (ManifestError, TypeError, UndefinedError):
        return 0


def test_methods_of_plain_values_cannot_exceed_the_limits():
    """SEC14: no method of a plain value creates a large string from a large number."""
    names = sorted({*dir(str), *dir(bytes), *dir(int)} - {*dir(object)})
    for name in (name for name in names if not name.startswith("_")):
        for arguments in ("10**9", "10**9, 'b'", "'', 'b' * 10**6", "10**9, 'big'"):
            for owner in ("('a' * 1000)", "('a' * 1000).encode()", "(5)"):
                text = f"{{{{ {owner}.{name}({arguments}) | string | length }}}}"
                assert get_rendered_length(text) <= 50_000_000, text


def test_ordinary_templates_work_within_the_limits():
    text = (
        "{{ '%s-%05d' % ('a', 5) }} {{ 'a' ~ 1 }} {{ 7 % 3 }} {{ 2 ** 8 }} {{ [1, 2] | join('-') }}"
        " {% for x in record.l %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}"
        "{% else %}none{% endfor %} {{ '{}-{a}'.format(1, a=2) }}"
        " {{ none | default(17000000, true) }}"
        " {{ '12' | int(99999999) }} {{ 'abc'.replace('a', 'b') }} {{ 'ab' | center(6) }}"
    )
    rendered = compile_template(text).render({"record": {"l": [1, 2]}}, {})
    assert rendered == "a-00005 a1 1 256 1-2 1/2,2/2 1-2 17000000 12 bbc   ab  "


@pytest.mark.parametrize(
    "text, result",
    [
        ("{% set l = [1, 2, (3, 4)] %}{{ l[1:] }} {{ l[2] == (3, 4) }}", "[2, (3, 4)] True"),
        ("{{ 1 < record.n <= 3 }} {{ record.n in [1, 2] }} {{ 'abc'[:2] }}", "True True ab"),
        ("{{ {'a': [record.n]} }} {{ record.n is divisibleby 2 }}", "{'a': [2]} True"),
        ("{{ record.l | selectattr('a', 'gt', 1) | map(attribute='a') | list }}", "[2]"),
        ("{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "x1"),
        ("{% set x, y = 1, 2 %}{{ x + y }}", "3"),
        ("{{ record.l | sort(attribute='a', reverse=true) | first }}", "{'a': 2}"),
        ("{{ 'é' | list }} {{ 'é'.encode('utf-8') | length }}", "['é'] 2"),
        ("{{ 'é'.encode('idna').decode() }} {{ json_loads('[1]') }}", "xn--9ca [1]"),
        ("{{ 'a b' | title }} {{ [3, 1] | map('abs') | min }}", "A B 1"),
    ],
)
def test_comparisons_and_new_lists_work_within_the_limits(text: str, result: str):
    scope = {"record": {"n": 2, "l": [{"a": 1}, {"a": 2}]}}
    assert compile_template(text).render(scope, {}) == result


def test_other_streams_are_read_when_a_template_exceeds_a_limit(tmp_path: Path):
    """SEC13: under Airbyte the other streams are read after a limit is exceeded."""
    value = "{{ 'a' * 10**9 }}"
    transformation = (
        f'transformations: [{{type: AddFields, fields: [{{path: [a], value: "{value}"}}]}}]'
    )
    path = manifest(
        tmp_path, stream("bad", "/bad", options=transformation), stream("good", "/good")
    )
    modes = {"sync_mode": "full_refresh", "destination_sync_mode": "append"}
    names = ("bad", "good")
    configured_streams = [{**modes, "stream": {"name": name, "json_schema": {}}} for name in names]
    (tmp_path / "catalog.json").write_text(json.dumps({"streams": configured_streams}))
    with serving() as server:
        server.answers(page({"id": 1}))
        (tmp_path / "config.json").write_text(json.dumps({"url": server.url}))
        command = [sys.executable, "-m", "tap_core.manifest.cli", "read", "--manifest", path]
        files = ["--config", tmp_path / "config.json", "--catalog", tmp_path / "catalog.json"]
        process = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in process.stdout.splitlines()]
    streams = [line["record"]["stream"] for line in lines if line["type"] == "RECORD"]
    assert streams == ["good"]
    assert "raise TAP_CORE_TEMPLATE_LENGTH" in process.stdout
    assert process.returncode != 0


def test_limits_are_set_by_environment_variables():
    code = (
        "from tap_core.manifest.interpolation import compile_template\n"
        "print(len(compile_template(\"{{ 'a' * 30 }}\").render({}, {})))\n"
    )
    for value, expected in (
        ("40", "30"),
        ("20", "raise TAP_CORE_TEMPLATE_LENGTH"),
        ("x", "a number"),
    ):
        process = subprocess.run(
            [sys.executable, "-c", code],
            env={"TAP_CORE_TEMPLATE_LENGTH": value, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert expected in process.stdout + process.stderr
