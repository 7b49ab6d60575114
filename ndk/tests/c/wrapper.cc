// The library through a C++ wrapper of the kind that applications write: objects that free themselves, moves that leave
// nothing behind, and an order of destruction that is the reverse of none in particular.
#include <NeuralNetworks.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

void check(int code, int line) {
    if (code == ANEURALNETWORKS_NO_ERROR) return;
    std::fprintf(stderr, "line %d: code %d: %s\n", line, code, nnburst_lastError());
    std::exit(1);
}
#define CHECK(call) check((call), __LINE__)

template <typename T, void (*Free)(T*)>
class Owned {
   public:
    Owned() = default;
    Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        if (this != &other) {
            Free(object_);
            object_ = std::exchange(other.object_, nullptr);
        }
        return *this;
    }
    ~Owned() { Free(object_); }
    T* get() const { return object_; }
    T** put() { return &object_; }

   private:
    T* object_ = nullptr;
};

using Model = Owned<ANeuralNetworksModel, ANeuralNetworksModel_free>;
using Compilation = Owned<ANeuralNetworksCompilation, ANeuralNetworksCompilation_free>;
using Execution = Owned<ANeuralNetworksExecution, ANeuralNetworksExecution_free>;
using Event = Owned<ANeuralNetworksEvent, ANeuralNetworksEvent_free>;

Model relu(uint32_t extent) {
    const ANeuralNetworksOperandType type{ANEURALNETWORKS_TENSOR_FLOAT32, 1, &extent, 0.0f, 0};
    const uint32_t in = 0, out = 1;
    Model model;
    CHECK(ANeuralNetworksModel_create(model.put()));
    CHECK(ANeuralNetworksModel_addOperand(model.get(), &type));
    CHECK(ANeuralNetworksModel_addOperand(model.get(), &type));
    CHECK(ANeuralNetworksModel_addOperation(model.get(), ANEURALNETWORKS_RELU, 1, &in, 1, &out));
    CHECK(ANeuralNetworksModel_identifyInputsAndOutputs(model.get(), 1, &in, 1, &out));
    CHECK(ANeuralNetworksModel_finish(model.get()));
    return model;
}

}  // namespace

int main() {
    Compilation compilation;
    {
        Model model = relu(2);
        Model moved = std::move(model);
        model = relu(3);  // what was moved from can be assigned to
        CHECK(ANeuralNetworksCompilation_create(moved.get(), compilation.put()));
    }
    CHECK(ANeuralNetworksCompilation_finish(compilation.get()));
    std::vector<Event> events;
    std::vector<Execution> executions;
    std::vector<std::vector<float>> inputs, outputs;
    for (int at = 0; at < 20; at++) {
        inputs.push_back({float(-at), float(at)});
        outputs.push_back({-1.0f, -1.0f});
    }
    for (int at = 0; at < 20; at++) {
        Execution execution;
        Event event;
        CHECK(ANeuralNetworksExecution_create(compilation.get(), execution.put()));
        CHECK(ANeuralNetworksExecution_setInput(execution.get(), 0, nullptr, inputs[at].data(), 8));
        CHECK(ANeuralNetworksExecution_setOutput(execution.get(), 0, nullptr, outputs[at].data(), 8));
        CHECK(ANeuralNetworksExecution_startCompute(execution.get(), event.put()));
        if (at % 2 == 0) executions.push_back(std::move(execution));  // the others are freed in flight
        events.push_back(std::move(event));
    }
    compilation = Compilation();
    for (int at = 0; at < 20; at++) {
        CHECK(ANeuralNetworksEvent_wait(events[at].get()));
        if (outputs[at][0] != 0.0f || outputs[at][1] != float(at)) {
            std::fprintf(stderr, "relu(%d) = %g\n", at, outputs[at][1]);
            return 1;
        }
    }
    return 0;
}
