/* The devices that there are: at least one, and each has a name. */
#include "check.h"

int main(void) {
    uint32_t count = 0;
    OK(ANeuralNetworks_getDeviceCount(&count));
    TRUE_THAT(count > 0);
    for (uint32_t at = 0; at < count; at++) {
        ANeuralNetworksDevice* device = NULL;
        const char* name = NULL;
        OK(ANeuralNetworks_getDevice(at, &device));
        OK(ANeuralNetworksDevice_getName(device, &name));
        printf("%s\n", name);
    }
    return 0;
}
