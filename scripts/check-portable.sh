#!/bin/sh
# Fails if the binary $1 needs a shared library outside glibc, or a glibc newer than 2.39.
needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$needed" ] || { echo "check-portable: $1: no dynamic section" >&2; exit 1; }
for library in $needed; do
    case "$library" in
    libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | ld-linux-*.so.*) ;;
    *) echo "check-portable: $1 needs $library, which a bare machine may not have" >&2; exit 1 ;;
    esac
done
newest=$(readelf -V "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
if [ "$(printf '%s\nGLIBC_2.39\n' "$newest" | sort -V | tail -1)" != GLIBC_2.39 ]; then
    echo "check-portable: $1 needs $newest, newer than GLIBC_2.39" >&2
    exit 1
fi
echo "portable: $1 needs $(echo $needed), $newest"
