/*
 * AHardwareBuffer for Linux: memory that processes and devices share, with a description of what is in it.
 *
 * The names, numbers and meanings are Android's, as far as neural networks have a use for them; the bytes are a
 * memfd, or whatever descriptor is handed to nnburst_AHardwareBuffer_fromFd: a memfd of the caller's, or a dma-buf of
 * a camera or GPU. The functions are in libneuralnetworks.so. Errors are numbers of errno.h, negated.
 *
 * A buffer as input and output of a network:
 *
 *     AHardwareBuffer_Desc desc = {.width = 4096, .height = 1, .layers = 1,
 *                                  .format = AHARDWAREBUFFER_FORMAT_BLOB,
 *                                  .usage = AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN};
 *     AHardwareBuffer* buffer;
 *     if (AHardwareBuffer_allocate(&desc, &buffer) != 0) return 1;
 *     ANeuralNetworksMemory_createFromAHardwareBuffer(buffer, &memory);
 */
#ifndef ANDROID_HARDWARE_BUFFER_H
#define ANDROID_HARDWARE_BUFFER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a pixel is. */
enum AHardwareBuffer_Format {
    AHARDWAREBUFFER_FORMAT_R8G8B8A8_UNORM = 1,
    AHARDWAREBUFFER_FORMAT_R8G8B8X8_UNORM = 2,
    AHARDWAREBUFFER_FORMAT_R8G8B8_UNORM = 3,
    AHARDWAREBUFFER_FORMAT_R5G6B5_UNORM = 4,
    AHARDWAREBUFFER_FORMAT_R16G16B16A16_FLOAT = 0x16,
    AHARDWAREBUFFER_FORMAT_R10G10B10A2_UNORM = 0x2b,
    /* A run of `width` bytes; height and layers are 1. The only format that constants may lie in, and that drivers
     * of other processes can always read. */
    AHARDWAREBUFFER_FORMAT_BLOB = 0x21,
};

/* What a buffer is for: hints, all of which are granted here. */
enum AHardwareBuffer_UsageFlags {
    AHARDWAREBUFFER_USAGE_CPU_READ_NEVER = 0,
    AHARDWAREBUFFER_USAGE_CPU_READ_RARELY = 2,
    AHARDWAREBUFFER_USAGE_CPU_READ_OFTEN = 3,
    AHARDWAREBUFFER_USAGE_CPU_READ_MASK = 0xF,
    AHARDWAREBUFFER_USAGE_CPU_WRITE_NEVER = 0 << 4,
    AHARDWAREBUFFER_USAGE_CPU_WRITE_RARELY = 2 << 4,
    AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN = 3 << 4,
    AHARDWAREBUFFER_USAGE_CPU_WRITE_MASK = 0xF << 4,
    AHARDWAREBUFFER_USAGE_GPU_SAMPLED_IMAGE = 1 << 8,
    AHARDWAREBUFFER_USAGE_GPU_DATA_BUFFER = 1 << 24,
};

typedef struct AHardwareBuffer_Desc {
    uint32_t width;  /* Pixels of a row; bytes of a BLOB. */
    uint32_t height; /* Rows; 1 for a BLOB. */
    uint32_t layers; /* Pictures; 1 for a BLOB. */
    uint32_t format; /* An AHardwareBuffer_Format. */
    uint64_t usage;  /* AHardwareBuffer_UsageFlags. */
    uint32_t stride; /* Pixels from row to row; told by describe, not asked for. */
    uint32_t rfu0;   /* 0. */
    uint64_t rfu1;   /* 0. */
} AHardwareBuffer_Desc;

typedef struct ARect {
    int32_t left;
    int32_t top;
    int32_t right;
    int32_t bottom;
} ARect;

typedef struct AHardwareBuffer AHardwareBuffer;

/* A new buffer of zeros, with one reference. -EINVAL for a description that can't be. */
int AHardwareBuffer_allocate(const AHardwareBuffer_Desc* desc, AHardwareBuffer** outBuffer);

/* One reference more. */
void AHardwareBuffer_acquire(AHardwareBuffer* buffer);

/* One reference less; the last one frees the buffer. Memories made from it keep its bytes. */
void AHardwareBuffer_release(AHardwareBuffer* buffer);

/* What the buffer is. */
void AHardwareBuffer_describe(const AHardwareBuffer* buffer, AHardwareBuffer_Desc* outDesc);

/* 1 if a buffer of this description can be allocated, else 0. */
int AHardwareBuffer_isSupported(const AHardwareBuffer_Desc* desc);

/* The bytes of the buffer in this process, at the same address each time, until the last reference is gone. Waits
 * for `fence` and closes it, unless it is -1. `usage` and `rect` (which may be null) are hints. */
int AHardwareBuffer_lock(AHardwareBuffer* buffer, uint64_t usage, int32_t fence, const ARect* rect,
                         void** outVirtualAddress);

/* Ends what lock began. `fence`, which may be null, is set to -1: nothing is underway. */
int AHardwareBuffer_unlock(AHardwareBuffer* buffer, int32_t* fence);

/* A buffer over a descriptor of the caller's, which is duplicated: a memfd or dma-buf of at least as many bytes as
 * the description takes. Not in Android. */
int nnburst_AHardwareBuffer_fromFd(const AHardwareBuffer_Desc* desc, int fd,
                                   AHardwareBuffer** outBuffer);

/* A descriptor of the buffer's bytes, for another process; the caller closes it. Not in Android. */
int nnburst_AHardwareBuffer_getFd(const AHardwareBuffer* buffer);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
