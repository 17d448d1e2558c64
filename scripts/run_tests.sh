#!/bin/sh
# Run the tests that a mark expression selects in three processes at a time, because many tests wait.
#
#   sh scripts/run_tests.sh "not thorough" python -m pytest [OPTION ...]
#
# The processes divide the test files: one begins with those of Spark, the others with those without.
# The output of this process is shown at once, that of the other two at the end. The exit code is
# that of a failed process, or 0.
set -u
marks=$1
shift

queue=$(mktemp -d) || exit 1
with_spark='' without_spark=''
# A shell starts processes in the background without SIGINT, so Ctrl-C would leave them running.
trap 'rm -rf "$queue"; kill $with_spark $without_spark 2> /dev/null' EXIT
trap 'exit 130' INT TERM

"$@" --queue="$queue" -m "spark and ($marks)" > .spark-tests.log 2>&1 &
with_spark=$!
"$@" --queue="$queue" -m "not spark and ($marks)" > .other-tests.log 2>&1 &
without_spark=$!
"$@" --queue="$queue" -m "$marks"
codes=$?
for process in $without_spark $with_spark; do
  wait "$process"
  codes="$codes $?"
done
with_spark='' without_spark=''
cat .other-tests.log .spark-tests.log

for code in $codes; do
  case $code in
    0 | 5) ;; # 5: the other processes have taken all tests
    *) exit "$code" ;;
  esac
done
