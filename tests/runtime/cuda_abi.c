/* The numbers and structs of cuda.h that tern_rt spells out by itself, against a toolkit's header: it compiles or it does not. */
#include "../../harness/runtime/driver_cuda.c"

#include <cuda.h>

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #b)
SAME(ATTRIBUTE_SMS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(ATTRIBUTE_CC_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(ATTRIBUTE_CC_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(ATTRIBUTE_SMEM_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(FUNCTION_MAX_DYNAMIC, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(FUNCTION_NON_PORTABLE, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(LAUNCH_DEPENDENT, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(sizeof(struct cuda_attribute), sizeof(CUlaunchAttribute));
SAME(offsetof(struct cuda_attribute, value), offsetof(CUlaunchAttribute, value));
SAME(sizeof(struct cuda_config), sizeof(CUlaunchConfig));
SAME(offsetof(struct cuda_config, block), offsetof(CUlaunchConfig, blockDimX));
SAME(offsetof(struct cuda_config, smem_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SAME(offsetof(struct cuda_config, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(struct cuda_config, attributes), offsetof(CUlaunchConfig, attrs));
SAME(offsetof(struct cuda_config, attribute_count), offsetof(CUlaunchConfig, numAttrs));
SAME(sizeof(CUdevice), sizeof(int));
SAME(sizeof(CUdeviceptr), sizeof(uint64_t));
