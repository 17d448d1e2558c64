"""Compiler of stream map expressions, such as ``name.upper()``, to functions of a record.

Unsupported syntax is rejected when the map is created. The compiler translates an expression to a
new syntax tree, where its names are only dict keys and constants, never Python names. So an
expression cannot reach Python's builtins. Attribute accesses and unsafe operators become calls of
`tap_core.mapper.functions`.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tap_core.exceptions import LimitExceededError, MapExpressionError
from tap_core.mapper.functions import (
    MUTATORS,
    PLAIN_METHODS,
    NotAllowedError,
    OperationBudget,
    add,
    attribute,
    call_method,
    checked_size,
    count_element,
    floor_divide,
    iterate,
    left_shift,
    modulo,
    multiply,
    power,
    reject_function,
    reject_name,
    right_shift,
    safe_format,
    safe_join,
)
from tap_core.redaction.row_values import are_rows_shown
from tap_core.types import Record

__all__ = [
    "Expression",
    "ExpressionScope",
    "UnknownNameError",
    "compile_expression",
    "parse_expression",
]


class UnknownNameError(MapExpressionError):
    """Raised if a name in an expression is neither defined nor a property of the record."""


@dataclass(frozen=True)
class ExpressionScope:
    """Names that a stream map expression can use in addition to the properties of the record.

    Attributes:
        functions: Functions and modules by name.
        constants: Values by name.
    """

    functions: Mapping[str, Any]
    constants: Mapping[str, Any]
    record: Sequence[str] = ("_", "record")
    """Names that refer to the record itself."""
    own: str | None = None
    """Name of the property that ``self`` refers to; None if the expression cannot use ``self``."""


@dataclass(frozen=True)
class Expression:
    """Compiled expression of a stream map; ``run(record)`` evaluates it."""

    run: Callable[[Record], Any]
    """Function that takes a record and returns the result, or raises MapExpressionError."""
    mutates: bool
    """True if the expression may change its record, or a value in the record."""


def parse_expression(text: str, location: str) -> ast.stmt:
    """Parse a stream map expression to a Python syntax tree.

    Only the first statement of the text is used; further ones are ignored, as in singer_sdk.

    Args:
        text: Text of the expression.
        location: Position of the expression in the settings, for error messages.

    Raises:
        MapExpressionError: The text is not valid Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ignore warnings about invalid escapes
            return ast.parse(text).body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError) as error:
        reason = "it is empty" if isinstance(error, IndexError) else str(error)
        raise MapExpressionError(
            f"Failed to parse expression {text}. It is {location}: {reason}."
        ) from error


def compile_expression(
    text: str, tree: ast.expr, scope: ExpressionScope, location: str
) -> Expression:
    """Compile a stream map expression to a function that evaluates it for a record.

    Args:
        text: Text of the expression, for error messages.
        tree: Syntax tree of the expression.
        scope: Names that the expression can use.
        location: Position of the expression in the settings, for error messages.

    Raises:
        MapExpressionError: The expression uses syntax or names that are not allowed.
    """
    translator = _Translator(scope)
    try:
        body = translator.translate(tree)
        run = _compile_function(
            body, translator, _make_error_converter(text, location, translator.fields)
        )
    except (NotAllowedError, RecursionError, MemoryError, SyntaxError) as error:
        raise MapExpressionError(_message(text, location, error)) from error
    return Expression(run, translator.mutates)


def _message(text: str, location: str, error: BaseException) -> str:
    """Return the message for an error: the expression, its position, and the cause.

    Messages of Python's errors may contain values of the record. They are omitted unless the
    settings allow values in messages.
    """
    reason = str(error).removesuffix(".")
    if not isinstance(error, (NotAllowedError, LimitExceededError)):
        kind = type(error).__name__
        reason = f"{kind}: {reason}" if are_rows_shown() else kind
    return f"Failed to evaluate simpleeval expressions {text}. It is {location}: {reason}."


_ErrorConverter: TypeAlias = Callable[[Exception, Record], MapExpressionError]


def _make_error_converter(text: str, location: str, fields: set[str]) -> _ErrorConverter:
    """Return a function that converts an error during evaluation to a `MapExpressionError`.

    The original error is its cause, unless messages must not show values of records. ``fields`` are
    the properties that the expression reads. If the record lacks one of them, the function returns
    an `UnknownNameError`.
    """

    def convert_error(error: Exception, record: Record) -> MapExpressionError:
        converted = convert(error, record)
        converted.__cause__ = error if are_rows_shown() else None
        return converted

    def convert(error: Exception, record: Record) -> MapExpressionError:
        name = error.args[0] if isinstance(error, KeyError) and error.args else None
        if isinstance(name, str) and name in fields and name not in record:
            hint = " (the package Faker is not installed)" if name == "fake" else ""
            unknown = NotAllowedError(f"the name '{name}' is not defined{hint}")
            return UnknownNameError(_message(text, location, unknown))
        return MapExpressionError(_message(text, location, error))

    return convert_error


# In the compiled function, `names` is the dict in which names are looked up: the record, or a copy
# if the expression may change the record. `budget` limits the comprehensions.
_FRAME = """
def run(record):
    try:
        {prologue}
        return None
    except Exception as error:
        raise convert_error(error, record)
"""


def _compile_function(
    body: ast.expr, translator: _Translator, convert_error: _ErrorConverter
) -> Callable[[Record], Any]:
    """Compile the translated syntax tree of an expression, ``body``, to a function of a record.

    ``convert_error`` returns the exception to raise for an error during evaluation.
    """
    # The globals get Python's builtins, because methods implemented in C need them for imports.
    # The expression cannot use them.
    prologue = "names = record.copy()" if translator.mutates else "names = record"
    if translator.loops:
        prologue += "; budget = OperationBudget()"
    frame = ast.parse(_FRAME.format(prologue=prologue))
    function = frame.body[0]
    assert isinstance(function, ast.FunctionDef)  # noqa: S101 - given by _FRAME
    block = function.body[0]
    assert isinstance(block, ast.Try)  # noqa: S101 - the same
    block.body[-1] = ast.Return(body)
    scope = {**_HELPERS, **translator.bound, "convert_error": convert_error}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignore warnings about code such as `1 is 1`
        exec(compile(ast.fix_missing_locations(frame), "<stream map>", "exec"), scope)  # noqa: S102
    run: Callable[[Record], Any] = scope["run"]
    return run


_HELPERS: dict[str, Any] = {
    "Exception": Exception,
    "OperationBudget": OperationBudget,
    "add": add,
    "attribute": attribute,
    "call_method": call_method,
    "count_element": count_element,
    "dict": dict,
    "floor_divide": floor_divide,
    "iterate": iterate,
    "left_shift": left_shift,
    "modulo": modulo,
    "multiply": multiply,
    "power": power,
    "right_shift": right_shift,
    "safe_format": safe_format,
    "safe_join": safe_join,
}
"""Global variables of the compiled functions."""

_PLAIN_OPERATORS = (ast.Sub, ast.Div, ast.BitAnd, ast.BitOr, ast.BitXor)
"""Operators that the translation keeps unchanged, because they cannot make large results."""

_GUARDED_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.FloorDiv: "floor_divide",
    ast.LShift: "left_shift",
    ast.Mod: "modulo",
    ast.Mult: "multiply",
    ast.Pow: "power",
    ast.RShift: "right_shift",
}

_TIMED_OPERATORS = (ast.FloorDiv, ast.Mod, ast.Mult, ast.Pow)
"""Operators whose time is limited per record, because large integers make them slow."""

_NodeTranslator: TypeAlias = Callable[["_Translator", Any], ast.expr]


@dataclass
class _Translator:
    """Translator of the syntax tree of an untrusted expression to one that is safe to execute."""

    scope: ExpressionScope
    bound: dict[str, Any] = field(default_factory=dict)
    """Global variables of the compiled function; their names are generated, such as ``k0``."""
    fields: set[str] = field(default_factory=set)
    """Names of the properties that the expression reads from the record."""
    loops: bool = False
    mutates: bool = False
    _locals: dict[str, str] = field(default_factory=dict)
    """Generated names, such as ``v1``, of the loop variables in scope, by their written names."""
    _loop_variables: int = 0

    def translate(self, node: ast.AST) -> ast.expr:
        """Translate a node of the expression's syntax tree, with its children, to safe syntax.

        Raises:
            NotAllowedError: Expressions must not use the syntax.
        """
        translate = _NODE_TRANSLATORS.get(type(node))
        if translate is None:
            raise NotAllowedError(f"{type(node).__name__} is not available in expressions")
        return translate(self, node)

    def translate_all(self, nodes: Sequence[ast.expr]) -> list[ast.expr]:
        return [self.translate(node) for node in nodes]

    def translate_optional(self, node: ast.expr | None) -> ast.expr | None:
        return None if node is None else self.translate(node)

    def bind(self, value: Any) -> ast.expr:
        """Store a value as a variable of the generated code; return the node that reads it."""
        name = f"k{len(self.bound)}"
        self.bound[name] = value
        return _load(name)

    def translate_name(self, name: str) -> ast.expr:
        """Translate a name: a loop variable, the record, a constant, ``self`` or a property."""
        scope = self.scope
        if name in self._locals:
            return _load(self._locals[name])
        if name in scope.record:
            return _load("record")
        if name in scope.constants:
            return self.bind(scope.constants[name])
        if name == "self" and scope.own is not None:
            own_name = ast.Constant(scope.own)
            has_own = ast.Compare(own_name, [ast.In()], [_load("names")])
            return ast.IfExp(
                has_own, _subscript(_load("names"), own_name), self._translate_property(name)
            )
        return self._translate_property(name)

    def _translate_property(self, name: str) -> ast.expr:
        """Return the syntax node that reads the property ``name`` of the record.

        If the record has no such property, the node evaluates to the function ``name``, if there is
        one.
        """
        if name in self.scope.functions:
            get = ast.Attribute(_load("names"), "get", ast.Load())
            return _call(get, ast.Constant(name), self.bind(self.scope.functions[name]))
        self.fields.add(name)
        return _subscript(_load("names"), ast.Constant(name))

    @contextmanager
    def nested_scope(self) -> Iterator[None]:
        """Context manager that limits the scope of a comprehension's variables to its block."""
        outer = dict(self._locals)
        try:
            yield
        finally:
            self._locals = outer

    def translate_target(self, node: ast.expr) -> tuple[ast.expr, Any]:
        """Translate the loop variables of a comprehension.

        Returns:
            The translated variables, and their nesting: None for a single variable, a tuple of
            nestings for several ones, such as ``(None, (None, None))`` for ``a, (b, c)``.

        Raises:
            NotAllowedError: A loop variable is not a name, but for example ``x.y``.
        """
        if isinstance(node, ast.Name):
            self._loop_variables += 1
            name = self._locals[node.id] = f"v{self._loop_variables}"
            return ast.Name(name, ast.Store()), None
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = [self.translate_target(part) for part in node.elts]
            names = ast.Tuple([name for name, _ in parts], ast.Store())
            return names, tuple(nesting for _, nesting in parts)
        raise NotAllowedError("a comprehension can assign to names only")


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _subscript(value: ast.expr, key: ast.expr) -> ast.expr:
    return ast.Subscript(value, key, ast.Load())


def _call(function: ast.expr | str, *args: ast.expr) -> ast.expr:
    called = _load(function) if isinstance(function, str) else function
    return ast.Call(called, list(args), [])


def _translate_constant(_translator: _Translator, node: ast.Constant) -> ast.expr:
    return ast.Constant(checked_size(node.value))


def _translate_binary(translator: _Translator, node: ast.BinOp) -> ast.expr:
    left, right = translator.translate(node.left), translator.translate(node.right)
    has_number = any(_is_number(side) for side in (node.left, node.right))
    if isinstance(node.op, ast.Mod):  # text on the left side is a format
        has_number = _is_number(node.left)
    # With a constant number, the other operand must be one too, so no text can become too long.
    is_plain = isinstance(node.op, (ast.Add, ast.FloorDiv, ast.Mod)) and has_number
    if isinstance(node.op, _PLAIN_OPERATORS) or is_plain:
        return ast.BinOp(left, node.op, right)
    if type(node.op) in _GUARDED_OPERATORS:
        record = [_load("names")] if isinstance(node.op, _TIMED_OPERATORS) else []
        return _call(_GUARDED_OPERATORS[type(node.op)], *record, left, right)
    raise NotAllowedError(f"the operator {type(node.op).__name__} is not available")


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _translate_compare(translator: _Translator, node: ast.Compare) -> ast.expr:
    left = translator.translate(node.left)
    return ast.Compare(left, node.ops, translator.translate_all(node.comparators))


def _translate_function(translator: _Translator, node: ast.Call) -> ast.expr:
    """Translate the function or method of a call expression.

    Raises:
        NotAllowedError: Expressions must not call it.
    """
    if isinstance(node.func, ast.Attribute):
        return translator.translate(node.func)
    if not isinstance(node.func, ast.Name):
        raise NotAllowedError("only functions and methods by their names can be called")
    name = node.func.id
    if name not in translator.scope.functions:
        raise NotAllowedError(f"the function '{name}' is not defined")
    reject_function(translator.scope.functions[name])
    return translator.bind(translator.scope.functions[name])


def _translate_call(translator: _Translator, node: ast.Call) -> ast.expr:
    if any(keyword.arg is None for keyword in node.keywords):
        raise NotAllowedError("** is not available in calls")
    if isinstance(node.func, ast.Attribute) and node.func.attr not in PLAIN_METHODS:
        function: ast.expr = _load("call_method")
        first = _translate_attribute_parts(translator, node.func)
    else:
        function, first = _translate_function(translator, node), []
    keywords = [
        ast.keyword(keyword.arg, translator.translate(keyword.value)) for keyword in node.keywords
    ]
    return ast.Call(function, [*first, *translator.translate_all(node.args)], keywords)


def _translate_attribute(translator: _Translator, node: ast.Attribute) -> ast.expr:
    return _call("attribute", *_translate_attribute_parts(translator, node))


def _translate_attribute_parts(translator: _Translator, node: ast.Attribute) -> list[ast.expr]:
    """Translate an attribute access, such as ``a.b``, to two nodes: the object and the name.

    Raises:
        NotAllowedError: Expressions must not use an attribute of this name.
    """
    reject_name(node.attr)
    translator.mutates = translator.mutates or node.attr in MUTATORS
    return [translator.translate(node.value), ast.Constant(node.attr)]


def _translate_slice(translator: _Translator, node: ast.Slice) -> ast.expr:
    bounds = (translator.translate_optional(bound) for bound in (node.lower, node.upper, node.step))
    return ast.Slice(*bounds)


def _translate_joined(translator: _Translator, node: ast.JoinedStr) -> ast.expr:
    return _call("safe_join", *translator.translate_all(node.values))


def _translate_formatted(translator: _Translator, node: ast.FormattedValue) -> ast.expr:
    """Translate the part ``{value:format}`` of an f-string; a conversion (``!r``) is ignored."""
    if node.format_spec is None:
        return translator.translate(node.value)
    return _call("safe_format", *translator.translate_all((node.value, node.format_spec)))


def _translate_dict(translator: _Translator, node: ast.Dict) -> ast.expr:
    values = [  # simpleeval accepts ``**pairs`` too, so its value is converted to a dict
        _call("dict", translator.translate(value)) if key is None else translator.translate(value)
        for key, value in zip(node.keys, node.values, strict=True)
    ]
    return ast.Dict([translator.translate_optional(key) for key in node.keys], values)


def _translate_list(translator: _Translator, node: ast.List) -> ast.expr:
    items: list[ast.expr] = [
        ast.Starred(translator.translate(item.value), ast.Load())
        if isinstance(item, ast.Starred)
        else translator.translate(item)
        for item in node.elts
    ]
    return ast.List(items, ast.Load())


def _translate_comprehension(
    translator: _Translator, node: ast.ListComp | ast.GeneratorExp | ast.DictComp
) -> ast.expr:
    """Translate a comprehension; a generator expression becomes a list comprehension."""
    translator.loops = True
    with translator.nested_scope():
        generators = [_translate_generator(translator, clause) for clause in node.generators]
        if isinstance(node, ast.DictComp):
            key, value = (_translate_counted(translator, part) for part in (node.key, node.value))
            return ast.DictComp(key, value, generators)
        return ast.ListComp(_translate_counted(translator, node.elt), generators)


def _translate_counted(translator: _Translator, node: ast.expr) -> ast.expr:
    """Translate the element of a comprehension to code that counts and limits its size."""
    element = translator.translate(node)
    is_small = isinstance(node, (ast.Constant, ast.Compare))
    return element if is_small else _call("count_element", _load("budget"), element)


def _translate_generator(translator: _Translator, node: ast.comprehension) -> ast.comprehension:
    if node.is_async:
        raise NotAllowedError("'async' is not available in expressions")
    items = translator.translate(node.iter)
    target, nesting = translator.translate_target(node.target)
    rounds = _call("iterate", _load("budget"), items, translator.bind(nesting))
    return ast.comprehension(target, rounds, translator.translate_all(node.ifs), 0)


_NODE_TRANSLATORS: dict[type[ast.AST], _NodeTranslator] = {
    ast.Attribute: _translate_attribute,
    ast.BinOp: _translate_binary,
    ast.BoolOp: lambda translator, node: ast.BoolOp(node.op, translator.translate_all(node.values)),
    ast.Call: _translate_call,
    ast.Compare: _translate_compare,
    ast.Constant: _translate_constant,
    ast.Dict: _translate_dict,
    ast.DictComp: _translate_comprehension,
    ast.FormattedValue: _translate_formatted,
    ast.GeneratorExp: _translate_comprehension,
    ast.IfExp: lambda translator, node: ast.IfExp(
        *translator.translate_all((node.test, node.body, node.orelse))
    ),
    ast.JoinedStr: _translate_joined,
    ast.List: _translate_list,
    ast.ListComp: _translate_comprehension,
    ast.Name: lambda translator, node: translator.translate_name(node.id),
    ast.Set: lambda translator, node: ast.Set(translator.translate_all(node.elts)),
    ast.Slice: _translate_slice,
    ast.Subscript: lambda translator, node: _subscript(
        translator.translate(node.value), translator.translate(node.slice)
    ),
    ast.Tuple: lambda translator, node: ast.Tuple(translator.translate_all(node.elts), ast.Load()),
    ast.UnaryOp: lambda translator, node: ast.UnaryOp(node.op, translator.translate(node.operand)),
}
