//! The device that evaluates the network.

use candle_core::Device;

use crate::LoadError;

/// The device that evaluates the network: the processor or a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ComputeDevice {
    #[default]
    Cpu,
    /// The GPU with this index, from 0, in the order of the driver.
    #[cfg(any(feature = "cuda", feature = "metal"))]
    Gpu(usize),
}

impl ComputeDevice {
    /// Opens the device. Fails if it is a GPU without a working driver.
    pub(crate) fn open(self) -> Result<Device, LoadError> {
        match self {
            Self::Cpu => Ok(Device::Cpu),
            #[cfg(any(feature = "cuda", feature = "metal"))]
            Self::Gpu(index) => gpu(index),
        }
    }
}

#[cfg(any(feature = "cuda", feature = "metal"))]
fn gpu(index: usize) -> Result<Device, LoadError> {
    use std::panic::catch_unwind;

    // The CUDA library panics if there is no driver.
    let opened = catch_unwind(|| {
        #[cfg(feature = "cuda")]
        return Device::new_cuda(index);
        #[cfg(not(feature = "cuda"))]
        return Device::new_metal(index);
    });
    let reason = match opened {
        Ok(Ok(device)) => return Ok(device),
        Ok(Err(error)) => crate::gguf::first_line(&error.to_string()),
        Err(_) => "the library of its driver cannot be loaded".to_owned(),
    };
    Err(LoadError::GpuUnavailable { index, reason })
}
