//! Operations on the elements of two tensors of the same shape.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};
use pulp::Arch;
use rayon::prelude::*;

use super::config::Activation;

/// The number of elements in a task of the thread pool.
const TASK_ELEMENTS: usize = 8 * 1024;

/// An operation on the elements of two tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elementwise {
    /// The sum of both elements.
    Sum,
    /// The activation of the first element, multiplied with the second element.
    Gated(Activation),
}

impl Elementwise {
    /// Applies this operation to `left` and `right`.
    pub(super) fn apply(self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        match left.device().is_cpu() {
            true => left.apply_op2_no_bwd(right, &self),
            false => self.apply_on_device(left, right),
        }
    }

    /// Does the same as [`apply`](Self::apply) with operations of the tensor library.
    fn apply_on_device(self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        match self {
            Self::Sum => left + right,
            Self::Gated(Activation::Silu) => left.silu()? * right,
            Self::Gated(Activation::GeluTanh) => left.gelu()? * right,
        }
    }

    #[inline(always)]
    fn compute(self, left: &[f32], right: &[f32], output: &mut [f32]) {
        let elements = output.iter_mut().zip(left.iter().zip(right));
        match self {
            Self::Sum => elements.for_each(|(output, (left, right))| *output = left + right),
            Self::Gated(Activation::Silu) => {
                elements.for_each(|(output, (left, right))| *output = left * sigmoid(*left) * right);
            }
            // The approximation is `x / 2 * (1 + tanh(z / 2))`, which is `x * sigmoid(z)`.
            Self::Gated(Activation::GeluTanh) => elements.for_each(|(output, (left, right))| {
                let z = 2.0 * (2.0 / std::f32::consts::PI).sqrt() * (left + 0.044_715 * left * left * left);
                *output = left * sigmoid(z) * right;
            }),
        }
    }
}

impl CustomOp2 for Elementwise {
    fn name(&self) -> &'static str {
        "elementwise"
    }

    fn cpu_fwd(
        &self,
        left: &CpuStorage,
        left_layout: &Layout,
        right: &CpuStorage,
        right_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let shape = left_layout.shape().clone();
        let (Some(left), Some(right)) = (elements(left, left_layout)?, elements(right, right_layout)?) else {
            bail!("an operand is not contiguous")
        };
        if left_layout.shape() != right_layout.shape() {
            bail!("the operands have the shapes {shape:?} and {:?}", right_layout.shape());
        }
        let mut output = vec![0.0; left.len()];
        let arch = Arch::new();
        output
            .par_chunks_mut(TASK_ELEMENTS)
            .zip(left.par_chunks(TASK_ELEMENTS).zip(right.par_chunks(TASK_ELEMENTS)))
            .for_each(|(output, (left, right))| {
                arch.dispatch(
                    #[inline(always)]
                    || self.compute(left, right, output),
                );
            });
        Ok((CpuStorage::F32(output), shape))
    }
}

/// Returns the elements of a tensor. Returns `None` if they are not contiguous.
pub(super) fn elements<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<Option<&'a [f32]>> {
    let elements = storage.as_slice::<f32>()?;
    Ok(layout.contiguous_offsets().and_then(|(start, end)| elements.get(start..end)))
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Returns the exponential of `x`, with a relative error below 3e-7. `x` is clamped to the range
/// from -87 to 88. The compiler can vectorize this function, unlike `f32::exp`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding this number rounds to an integer, which is then in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // The logarithm of 2 in two parts. The product of the first part and an integer is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let exponent = rounded - ROUND;
    let rest = x - exponent * LN_2_HIGH - exponent * LN_2_LOW;
    // The Taylor series of the exponential up to the 6th power. `rest` is at most 0.35.
    let series = 1.0 / 720.0;
    let series = series * rest + 1.0 / 120.0;
    let series = series * rest + 1.0 / 24.0;
    let series = series * rest + 1.0 / 6.0;
    let series = series * rest + 0.5;
    let series = series * rest + 1.0;
    let series = series * rest + 1.0;
    series * f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23))
}

#[cfg(test)]
mod tests;
