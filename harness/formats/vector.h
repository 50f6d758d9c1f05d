/* Loops over codes, built for more than one kind of machine. */
#ifndef TERN_FORMATS_VECTOR_H
#define TERN_FORMATS_VECTOR_H

/* Builds a function for AVX2 as well and takes that where the machine has it. Sanitizers cannot watch the choice. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define TERN_VECTOR __attribute__((target_clones("avx2", "default")))
#else
#define TERN_VECTOR
#endif

#endif
