#!/bin/sh
# wget of the demo image. Debian's busybox has no time limits in its own, and crashes at -T: here the limit is of the whole call.
limit=0
count=$#
while [ "$count" -gt 0 ]; do
  word=$1
  shift
  count=$((count - 1))
  value=
  case $word in
    --timeout) value=next word= ;;
    --timeout=*) value=${word#*=} word= ;;
    --*) ;;
    # -T alone or behind flags: -qT3
    -*T*)
      flags=${word%%T*}
      case ${flags#-} in
        *[!cqS]*) ;;
        *)
          value=${word#*T}
          value=${value:-next} word=${flags#-}
          word=${word:+-$word}
          ;;
      esac
      ;;
  esac
  if [ "$value" = next ]; then
    value=${1-}
    [ "$count" -gt 0 ] && shift && count=$((count - 1))
  fi
  [ -z "$value" ] || limit=$value
  [ -z "$word" ] || set -- "$@" "$word"
done
[ "$limit" != 0 ] || exec busybox wget "$@"
timeout "$limit" busybox wget "$@"
status=$?
[ "$status" != 143 ] || { echo "wget: download timed out" >&2 && exit 1; }
exit "$status"
