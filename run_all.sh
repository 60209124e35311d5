#!/usr/bin/env bash
# Set-up on first use, a check of the machine, the five systems one after the other, and the page of all results.
# The same command goes on where it was interrupted.
set -eu
cd "$(dirname "$0")"

usage="bash run_all.sh [--profile smoke|small|demo|paper] [--only plfl,fnst] [--results FOLDER]"
refuse() {
  echo "run_all.sh: $1; usage: $usage" >&2
  exit 2
}

profile=demo only= results=results
while [ $# -gt 0 ]; do
  case $1 in
    --profile=* | --only=* | --results=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
  esac
  case $1 in
    -h | --help)
      echo "$usage"
      echo "  systems: those of the five papers; --only names any that \`tffapps --help\` lists"
      exit 0
      ;;
    --profile | --only | --results) [ $# -gt 1 ] && [ -n "$2" ] || refuse "$1 needs a value" ;;
    *) refuse "$1: unknown argument" ;;
  esac
  case $1 in
    --profile) profile=$2 ;;
    --only) only=${2//,/ } ;;
    --results) results=$2 ;;
  esac
  shift 2
done
case $profile in
  smoke | small | demo | paper) ;;
  *) refuse "--profile $profile: choose smoke, small, demo or paper" ;;
esac

. scripts/setup.sh requirements.txt
systems=$("$PYTHON" -m tffapps.systems) # a line of those that are played, a line of the others
papers=${systems%%$'\n'*} all=${systems//$'\n'/ }
for app in $only; do
  case " $all " in *" $app "*) ;; *) refuse "--only $app: choose from ${all// /, }" ;; esac
done

"$PYTHON" -m tffapps.doctor
for app in ${only:-$papers}; do
  echo "== $app"
  "$PYTHON" -m tffapps "$app" --profile "$profile" --results "$results"
done
# Tables of the small network from random weights have a folder and a page of their own.
if [ "$profile" != small ]; then
  "$PYTHON" -m tffapps.report --summary --results "$results"
fi
if [ "$profile" = small ] || { [ "$profile" = demo ] && [ -d "$results/small" ]; }; then
  "$PYTHON" -m tffapps.report --summary --results "$results/small"
fi
