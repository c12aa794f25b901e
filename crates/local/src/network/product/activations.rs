//! Activations that are quantized to 8 bits.

use super::blocks::GROUP;

/// The activations of one token, quantized in groups.
pub(super) struct Activations {
    pub(super) groups: Vec<ActivationGroup>,
}

/// A group of quantized activations. An activation is `scale * quant`.
pub(super) struct ActivationGroup {
    pub(super) quants: [i8; GROUP],
    pub(super) scale: f32,
    /// The sum of the activations, for block formats with a minimum.
    pub(super) sum: f32,
}

impl Activations {
    /// Quantizes `values`, whose length is a multiple of [`GROUP`].
    pub(super) fn quantize(values: &[f32]) -> Self {
        Self { groups: values.as_chunks().0.iter().map(ActivationGroup::quantize).collect() }
    }

    /// Returns the quantized activations as floats.
    pub(super) fn floats(&self) -> impl Iterator<Item = f32> {
        self.groups.iter().flat_map(|group| group.quants.map(|quant| f32::from(quant) * group.scale))
    }
}

impl ActivationGroup {
    fn quantize(values: &[f32; GROUP]) -> Self {
        let largest = values.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        let scale = largest / f32::from(i8::MAX);
        let inverse = if scale == 0.0 { 0.0 } else { scale.recip() };
        let quants = values.map(|value| (value * inverse).round_ties_even() as i8);
        let sum: i32 = quants.iter().map(|quant| i32::from(*quant)).sum();
        Self { quants, scale, sum: scale * sum as f32 }
    }
}
