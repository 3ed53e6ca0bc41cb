// Lets the CPU build of torch run autograd and autocast on tensors that say they are on a GPU and hold nothing.
//
// Without this the build stops there: it has no guard that sets the device, and nothing that answers for CUDA. There is
// one device, one stream, and no kernel.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

struct PlayedGuard final : c10::impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  static Device only() { return Device(DeviceType::CUDA, 0); }

  Device getDevice() const override { return only(); }
  Device exchangeDevice(Device) const override { return only(); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  Stream getStream(Device) const noexcept override { return Stream(Stream::DEFAULT, only()); }
  Stream getNewStream(Device, int) const override { return getStream(only()); }
  Stream exchangeStream(Stream) const noexcept override { return getStream(only()); }
};

struct PlayedHooks final : at::CUDAHooksInterface {
  explicit PlayedHooks(at::CUDAHooksArgs) {}

  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex getCurrentDevice() const override { return 0; }
};

// In the namespaces that the registries ask for.
namespace c10::impl {
C10_REGISTER_GUARD_IMPL(CUDA, PlayedGuard)
}
namespace at {
using ::PlayedHooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, PlayedHooks)
}  // namespace at
