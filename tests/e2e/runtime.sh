#!/bin/bash
# tern_rt without a GPU: a planned table of real kernels, each compiled for the emulator; the example in C, eight threads, the same
# under ThreadSanitizer, and a project that has nothing of Tern but what `make install` gives.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

warnings=(-g -O1 -Wall -Wextra -Wshadow -Werror)
own=(-std=c17 "${warnings[@]}" -D_GNU_SOURCE -Iharness -Iharness/runtime -Itemplates/include -Itests/runtime -I"$work/x")
libraries=(build/libtern.a -llua5.4 -lsqlite3 -ljansson -lxxhash -lzstd -ldl -lpthread -lm)

"$tune" doctor 2>/dev/null | grep -qi "nvrtc.*not found" && echo "no NVRTC to plan a table with" && exit 77
check "a table is planned" exits 0 PLANNED "$tune" --gpu h200 --shapes smoke --layers wide --m 1,3,17 --templates mma-decode --formats "ternary-g128,gptq4-g32-asym" --budget 10s --db "$work/t.db" --cache "$work/cache"
check "and one of bfloat16 beside it" exits 0 "linear-bf16" "$tune" --gpu h200 --shapes smoke --layers wide --m 1,3 --activations bf16 --templates mma-decode --formats ternary-g128 --budget 5s --db "$work/t.db" --cache "$work/cache"
check "it is exported with its kernels" exits 0 "" "$tune" export --gpu h200 --db "$work/t.db" --allow-planned -o "$work/x"
check "every kernel is packed" grep -q '"missing": 0' "$work/x/manifest.json"
check "nothing has changed since" exits 0 "" "$tune" export --gpu h200 --db "$work/t.db" --allow-planned --check "$work/x"

# ---- sizes that a kernel cannot compute: x in registers, for as many rows and columns as its warps hold ----
check "a table of kernels with x in registers is planned" exits 0 PLANNED "$tune" --gpu h200 --shapes smoke --layers wide --m 3,5 --templates mma-resident,imma-resident,imma-decode --formats ternary-g128 --budget 5s --db "$work/held.db" --cache "$work/cache"
check "and exported" exits 0 "" "$tune" export --gpu h200 --db "$work/held.db" --cache "$work/cache" --allow-planned -o "$work/held"
check "its header is built" gcc -std=c99 "$work/held/example.c" -o "$work/held/example"
check "the tuned rows are served" exits 0 "exact match" "$work/held/example" ternary-g128 3 384 256
check "more rows than any kernel holds are not" exits 1 "none match, use cuBLAS" "$work/held/example" ternary-g128 17 384 256
check "nor more of K" exits 1 "none match, use cuBLAS" "$work/held/example" ternary-g128 3 384 262144

# ---- on the emulator ----
mkdir -p "$work/e"
check "the kernels' stand-ins are built" gcc "${own[@]}" tests/runtime/emulate_kernels.c "${libraries[@]}" -o "$work/emulate_kernels"
check "and packed" env TERN_HOME="$PWD" "$work/emulate_kernels" "$work/e/tern_kernels.bin" "$work/e"
check "the example is built" gcc "${own[@]}" examples/c/layer.c tests/runtime/device_emulated.c tests/runtime/emulated.c "${libraries[@]}" -o "$work/layer"
for problem in "ternary-g128 1 384 256" "ternary-g128 17 384 256" "gptq4-g32-asym 3 384 256" "gptq4-g32-asym 2 264 320"; do
    check "examples/c is right: $problem" exits 0 " 0 of " sh -c "'$work/layer' '$work/e' $problem"
done
check "the example refuses a format that the table lacks" exits 1 NO_KERNEL "$work/layer" "$work/e" gptq8-channel 1 384 256
check "threads and bad input are built" gcc "${own[@]}" tests/runtime/test_runtime.c tests/runtime/emulated.c "${libraries[@]}" -o "$work/test_runtime"
"$work/test_runtime" "$work/e" timed
check "packing is built" gcc "${own[@]}" tests/runtime/test_packing.c tests/runtime/emulated.c "${libraries[@]}" -o "$work/test_packing"
"$work/test_packing" "$work/e"

# ---- what the CUDA side can be held against without a GPU ----
cuda=$(scripts/find-cuda.sh include | cut -d' ' -f1)
[ -z "$cuda" ] || check "constants and structs are those of cuda.h" gcc "${own[@]}" -isystem "$cuda" -c tests/runtime/cuda_abi.c -o "$work/cuda_abi.o"
[ -z "$cuda" ] || check "what measures a launch on a GPU compiles" gcc -std=gnu11 "${warnings[@]}" -Iexamples/c -Iharness -Iharness/runtime -Itemplates/include -I"$work/x" -isystem "$cuda" -c tests/gpu/launch_cost.c -o "$work/launch_cost.o"

# ---- ThreadSanitizer: the runtime, the header and the test are instrumented; the emulator is not ----
tsan() {
    local object objects=()
    for source in harness/runtime/*.c tests/runtime/test_runtime.c; do
        object=$work/$(basename "$source" .c).o
        gcc "${own[@]}" -fsanitize=thread -c "$source" -o "$object" || return 1
        objects+=("$object")
    done
    gcc "${own[@]}" -c tests/runtime/emulated.c -o "$work/emulated.o" &&
        gcc -fsanitize=thread "${objects[@]}" "$work/emulated.o" "${libraries[@]}" -o "$work/tsan"
}
clean() { "$work/tsan" "$work/e" >"$work/tsan.log" 2>&1 && ! grep -q "WARNING: ThreadSanitizer" "$work/tsan.log" || { tail -30 "$work/tsan.log" && return 1; }; }
if printf 'int main(void) { return 0; }\n' | gcc -fsanitize=thread -x c - -o "$work/probe" 2>/dev/null && "$work/probe"; then
    check "it is built with ThreadSanitizer" tsan
    check "ThreadSanitizer finds nothing with 8 threads that select and launch" clean
else
    echo "# ThreadSanitizer does not work here"
fi

# ---- PyTorch, on the CPU: the same operator and modules over a library that holds the emulator ----
python=
for candidate in "${TERN_PYTHON:-}" python3 .deps/torch/bin/python; do
    [ -n "$candidate" ] && "$candidate" -c 'import torch' 2>/dev/null && python=$candidate && break
done
if [ -n "$python" ]; then
    emulator=(tests/runtime/emulated.c harness/runtime/*.c harness/device/emu.c harness/emulator/*.c
        harness/core/{activation,archive,clock,error,file,half,hash,log,random,str}.c harness/formats/{format,layout,parallel,weights}.c)
    check "the table as a library" gcc -O2 -shared -fPIC -x c -DTERN_DISPATCH_IMPLEMENTATION "$work/x/tern_dispatch.h" -o "$work/e/libtern_dispatch.so"
    check "the emulator as a library" gcc "${own[@]}" -shared -fPIC "${emulator[@]}" -Wl,--no-undefined -lxxhash -lzstd -ldl -lpthread -lm -o "$work/libtern_emulated.so"
    PYTHONDONTWRITEBYTECODE=1 TERN_RT_LIBRARY=$work/libtern_emulated.so "$python" examples/torch/check.py "$work/e" cpu 2>"$work/torch.log" || { tail -5 "$work/torch.log" && echo "not ok examples/torch"; }
    if "$python" -c 'import transformers' 2>/dev/null; then
        PYTHONDONTWRITEBYTECODE=1 TERN_RT_LIBRARY=$work/libtern_emulated.so "$python" examples/torch/end_to_end.py "$work/e" --model tiny --cpu >"$work/decoder.txt" 2>"$work/torch.log" || tail -5 "$work/torch.log"
        grep -E '^(not )?ok ' "$work/decoder.txt" || echo "not ok end_to_end.py ended without a verdict"
    else
        echo "# examples/torch/end_to_end.py is skipped: no transformers"
    fi
else
    echo "# examples/torch is skipped: no python3 here has torch (name one with TERN_PYTHON)"
fi

# ---- as a project that has nothing else of Tern ----
check "make install" make -s install PREFIX="$work/p"
export PKG_CONFIG_PATH=$work/p/lib/pkgconfig
outside() { # compiler, output, files and options...
    local compiler=$1 output=$2
    shift 2
    (cd "$work" && $compiler -Wall -Wextra -Werror -I"$work/x" -I"$work/project" "$@" $(pkg-config --cflags --libs tern_rt) -lm -Wl,-rpath,"$work/p/lib" -o "$output")
}
mkdir -p "$work/project" && cp examples/c/* "$work/project"
check "the example against the shared library" outside "gcc -std=gnu11" layer_shared project/layer.c project/device_cuda.c
check "the example against the static library" sh -c "cd '$work' && gcc -std=gnu11 -Wall -Wextra -Werror -I'$work/x' \$(pkg-config --cflags tern_rt) project/layer.c project/device_cuda.c p/lib/libtern_rt.a \$(pkg-config --static --libs-only-l tern_rt | sed 's/-ltern_rt//') -o layer_static"
printf '#include <tern_rt.h>\n#define TERN_DISPATCH_IMPLEMENTATION\n#include "tern_dispatch.h"\nint main() { return tern_rt_status_name(TERN_RT_OK)[0] != 79; }\n' >"$work/use.cpp"
check "both headers in C++" outside "g++ -std=c++11 -Wpedantic" use_cpp use.cpp
check "and it runs" "$work/use_cpp"
[ -e /dev/nvidiactl ] || check "without a driver it says so" exits 3 "libcuda.so.1" "$work/layer_shared" "$work/x" ternary-g128 1 384 256
check "the exported example runs" sh -c "cd '$work/x' && gcc -std=c99 -Wall -Wextra -Wpedantic -Werror example.c -o '$work/example' && '$work/example'"
exit 0
