#!/bin/sh
# Says whether Cargo would know what it is asked for, and builds nothing.
case "$1" in
  run)
    while [ "$1" != -- ]; do shift; done
    shift
    exec gladhand "$@" ;;
  xtask)
    grep -q "^  $2 " "$REPOSITORY/xtask/src/main.rs" || { echo "no chore $2"; exit 1; } ;;
  install)
    [ "$2" = --path ] && [ -f "$REPOSITORY/$3/Cargo.toml" ] || { echo "no package at $3"; exit 1; }
    [ -z "$4" ] || { [ "$4" = --features ] && grep -q "^$5 = " "$REPOSITORY/$3/Cargo.toml"; } || { echo "no feature $5"; exit 1; } ;;
  *)
    echo "the pages do not use cargo $1"; exit 1 ;;
esac
