"""Limits for names and prose of packages, samples and scripts, so that they use standard terms.

The limits are close to the figures of pyiceberg and singer_sdk. A docstring does not begin with a
question word, names of functions are verb phrases, and two public classes do not share a name.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator

from tests.code_rules.source_files import ROOT, Module, assert_empty, read_modules

MODULES = read_modules()
OTHER_MODULES = read_modules(packages=("fivetran_tester", "images", "samples", "scripts"))

QUESTION_SHARE = 0.005
DIALECT_PER_THOUSAND = 0.5
MODULES_AT_A_ROOT = 16

QUESTION = re.compile(r"(What|Which|Whether|Where|Who|Whose|How|When|Whatever|Whoever)\b")
DIALECT = re.compile(
    r"\b(whoever|whatever|nobody|somebody|anew|(?:is|are) none|none of (?:ours|them)|of its own"
    r"|by itself|that is there|stands? (?:there|still|in|beside|for|on)|goes? on|so many"
    r"|(?:is|are|was) (?:told|said)|put(?:s)? down|lets? out|let out|leaves? behind"
    r"|takes? the place|haste|heed(?:s|ed)?|misfits?|mend(?:s|ed|ing)?|blackens?"
    r"|(?:this|the) (?:room|house)|of the room)\b",
    re.IGNORECASE,
)
"""Phrases that this project once used instead of standard terms."""

UNCLEAR_NAMES = {"asked", "found", "made", "noted", "one", "told"}
"""Names of values that do not say what the value is."""

SINGER_SDK_NAMES = {"handle_all_of", "handle_one_of"}
"""Hooks of singer_sdk's OpenAPI normalizer, which authors override by these names."""

SHARED_CLASS_NAMES = {
    "OAuthAuthenticator",  # singer_sdk's class, and the component type of Airbyte's manifests
    "BatchFileFormat",  # singer_sdk's enum, and the enum of Fivetran's protobuf messages
    "BatchFile",  # a file of a BATCH message; the tester's file of a batch of Fivetran
    "Stream",  # the author's class; the tester's stream of update messages
    "TableSelection",  # of a connector, and of the tester that simulates Fivetran
}
"""Public class names that two classes share, with the reasons."""


def docstrings(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring of a module."""
    for node in module.nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def comments(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment of a module."""
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def messages(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of the strings in ``raise`` statements and calls of a logger."""
    levels = {"debug", "info", "warning", "error", "exception", "critical", "log"}
    for node in module.nodes:
        is_log = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in levels
        )
        if is_log or isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in module.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def local_names(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each parameter and each assigned variable of a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def test_docstrings_do_not_begin_with_a_question_word() -> None:
    faults, total = [], 0
    for module in [*MODULES, *OTHER_MODULES]:
        for line, text in docstrings(module):
            total += 1
            if QUESTION.match(text):
                faults.append(f"{module.name}:{line}: {text.splitlines()[0]}")
    assert len(faults) <= QUESTION_SHARE * total, "\n".join(faults)


def test_texts_use_standard_terms() -> None:
    faults, word_count = [], 0
    for module in [*MODULES, *OTHER_MODULES]:
        for line, text in [*docstrings(module), *comments(module), *messages(module)]:
            word_count += len(re.findall(r"[A-Za-z']+", text))
            faults += [f"{module.name}:{line}: {hit.group()}" for hit in DIALECT.finditer(text)]
    assert len(faults) <= DIALECT_PER_THOUSAND * word_count / 1000, "\n".join(faults)


def test_functions_are_verb_phrases() -> None:
    assert_empty(
        [
            f"{module.name}:{node.lineno}: {node.name}"
            for module in [*MODULES, *OTHER_MODULES]
            for node in functions(module)
            if node.name.endswith("_of") and node.name not in SINGER_SDK_NAMES
        ]
    )


def test_values_in_functions_have_names_that_say_what_they_are() -> None:
    assert_empty(
        [
            f"{module.name}:{line}: {name}"
            for module in [*MODULES, *OTHER_MODULES, *read_modules(packages=("tests",))]
            for function in functions(module)
            for line, name in local_names(function)
            if name in UNCLEAR_NAMES
        ]
    )


def test_public_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.name)
    assert_empty(
        [
            f"{name}: {', '.join(modules)}"
            for name, modules in homes.items()
            if len(modules) > 1 and name not in SHARED_CLASS_NAMES
        ]
    )


def test_packages_have_few_modules_at_their_top_level() -> None:
    for package in ("tap_core", "target_spark"):
        files = sorted(path.name for path in (ROOT / package).glob("*.py"))
        assert len(files) <= MODULES_AT_A_ROOT, f"{package}: {files}"
