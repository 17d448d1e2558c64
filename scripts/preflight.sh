#!/bin/sh
# Check the requirements of the project: Python 3.10+ with pip and venv, and Java 17 to 22.
#
# The path of the Python interpreter is printed on standard output. Missing programs are listed on
# standard error with instructions to install them, and the exit code is not 0.
# The variable PYTHON selects an interpreter instead of the first suitable one.
set -u

missing=0
say() { printf '%s\n' "$*" >&2; }

python_fits() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

find_python() {
  if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
  else
    set -- python3 python3.13 python3.12 python3.11 python3.10 python
  fi
  for name in "$@"; do
    if python_fits "$name"; then
      "$name" -c 'import sys; print(sys.executable)'
      return 0
    fi
  done
  return 1
}

check_python() {
  if ! python=$(find_python); then
    missing=1
    say "missing: Python 3.10 or newer${PYTHON:+ (PYTHON=$PYTHON is not suitable)}"
    say "  Debian, Ubuntu: apt-get install python3 python3-venv python3-pip"
    say "  macOS:          brew install python@3.12"
    say "  elsewhere:      https://www.python.org/downloads/"
    say "  An interpreter in another place: make PYTHON=/path/to/python3 ..."
    return
  fi
  if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    missing=1
    say "missing: pip and venv for $python"
    say "  Debian, Ubuntu: apt-get install python3-venv python3-pip"
    say "  elsewhere:      reinstall Python with its standard library complete"
  fi
}

# `java -version` prints `openjdk version "17.0.15" ...`, before Java 9 `java version "1.8.0_402"`.
java_major() {
  "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

check_java() {
  java=java
  if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; fi
  major=$(java_major "$java")
  if [ -z "$major" ]; then
    missing=1
    say "missing: Java 17 to 22 (Spark runs on it)${JAVA_HOME:+; JAVA_HOME is $JAVA_HOME}"
  elif [ "$major" -lt 17 ]; then
    missing=1
    say "too old: Java $major ($java); Spark needs Java 17 to 22"
  elif [ "$major" -gt 22 ]; then
    missing=1
    say "too new: Java $major ($java); Spark needs Java 17 to 22"
  else
    return
  fi
  say "  Debian, Ubuntu: apt-get install openjdk-17-jre-headless"
  say "  macOS:          brew install openjdk@17"
  say "  elsewhere:      https://adoptium.net/"
  say "  Several Javas:  set JAVA_HOME to the folder of the one to use"
}

python=
check_python
check_java
[ "$missing" -eq 0 ] || exit 1
printf '%s\n' "$python"
