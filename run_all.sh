#!/usr/bin/env bash
# Set-up on first use, a check of the machine, the five systems, and the page of all results. Two systems run at a time:
# much of a short run is one core's work. The same command goes on where it was interrupted.
set -eu
cd "$(dirname "$0")"

usage="bash run_all.sh [--profile smoke|small|demo|paper] [--only plfl,fnst] [--results FOLDER] [--at-once N]"
refuse() {
  echo "run_all.sh: $1; usage: $usage" >&2
  exit 2
}

profile=demo only= results=results at_once=2
while [ $# -gt 0 ]; do
  case $1 in
    --profile=* | --only=* | --results=* | --at-once=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
  esac
  case $1 in
    -h | --help)
      echo "$usage"
      echo "  systems: those of the five papers; --only names any that \`tffapps --help\` lists"
      exit 0
      ;;
    --profile | --only | --results | --at-once) [ $# -gt 1 ] && [ -n "$2" ] || refuse "$1 needs a value" ;;
    *) refuse "$1: unknown argument" ;;
  esac
  case $1 in
    --profile) profile=$2 ;;
    --only) only=${2//,/ } ;;
    --results) results=$2 ;;
    --at-once) at_once=$2 ;;
  esac
  shift 2
done
case $profile in
  smoke | small | demo | paper) ;;
  *) refuse "--profile $profile: choose smoke, small, demo or paper" ;;
esac
[[ $at_once =~ ^[1-9]$ ]] || refuse "--at-once $at_once: from 1 to 9 systems"

. scripts/setup.sh requirements.txt
systems=$("$PYTHON" -m tffapps.systems) # a line of those that are played, a line of the others
papers=${systems%%$'\n'*} all=${systems//$'\n'/ }
for app in $only; do
  case " $all " in *" $app "*) ;; *) refuse "--only $app: choose from ${all// /, }" ;; esac
done

"$PYTHON" -m tffapps.doctor

# Each system in a process group of its own, so that Ctrl-C reaches it as it would without this script.
set -m
declare -A running=()
failed=0
stop() {
  trap - INT TERM
  for group in "${!running[@]}"; do kill -INT -- "-$group" 2>/dev/null || true; done
  wait
  exit 130
}
trap stop INT TERM

await() { # until fewer than $1 are running; the first that fails decides the exit status
  while [ ${#running[@]} -ge "$1" ]; do
    for group in "${!running[@]}"; do
      kill -0 "$group" 2>/dev/null && continue
      wait "$group" || { status=$? && [ $failed -ne 0 ] || failed=$status; }
      unset "running[$group]"
    done
    [ ${#running[@]} -lt "$1" ] || sleep 0.2
  done
}

left() { # how long what has not ended yet takes, if it takes as long as what has
  local ended=$(($1 - ${#running[@]})) minutes
  [ $ended -gt 0 ] || return 0
  minutes=$((SECONDS * (${#names[@]} - ended) / ended / 60))
  [ $minutes -eq 0 ] || echo ", about $minutes min left"
}

names=(${only:-$papers})
SECONDS=0
for number in "${!names[@]}"; do
  await "$at_once"
  [ $failed -eq 0 ] || break
  app=${names[$number]}
  echo "== $app ($((number + 1)) of ${#names[@]})$(left "$number")"
  (
    set -o pipefail
    "$PYTHON" -m tffapps "$app" --profile "$profile" --results "$results" 2>&1 | (trap '' INT && exec sed -u "s/^/$app | /")
  ) &
  running[$!]=$app
done
await 1
[ $failed -eq 0 ] || exit "$failed"
set +m
# Tables of the small network from random weights have a folder and a page of their own.
if [ "$profile" != small ]; then
  "$PYTHON" -m tffapps.report --summary --results "$results"
fi
if [ "$profile" = small ] || { [ "$profile" = demo ] && [ -d "$results/small" ]; }; then
  "$PYTHON" -m tffapps.report --summary --results "$results/small"
fi
