//! Activations that are quantized to 8 bits.

use super::blocks::GROUP;

/// The activations of one token, quantized in groups. An activation is the scale of its group times
/// a small integer. The vectors have an entry for each group.
pub(super) struct Activations {
    pub(super) quants: Vec<[i8; GROUP]>,
    pub(super) scales: Vec<f32>,
    /// The sums of the activations of each group, for block formats with a minimum.
    pub(super) sums: Vec<f32>,
}

impl Activations {
    /// Quantizes `values`, whose length is a multiple of [`GROUP`].
    pub(super) fn quantize(values: &[f32]) -> Self {
        let groups = values.as_chunks::<GROUP>().0;
        let mut activations = Self {
            quants: Vec::with_capacity(groups.len()),
            scales: Vec::with_capacity(groups.len()),
            sums: Vec::with_capacity(groups.len()),
        };
        for values in groups {
            let largest = values.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
            let scale = largest / f32::from(i8::MAX);
            let inverse = if scale == 0.0 { 0.0 } else { scale.recip() };
            let quants = values.map(|value| (value * inverse).round_ties_even() as i8);
            let sum: i32 = quants.iter().map(|quant| i32::from(*quant)).sum();
            activations.quants.push(quants);
            activations.scales.push(scale);
            activations.sums.push(scale * sum as f32);
        }
        activations
    }

    /// Returns the quantized activations as floats.
    pub(super) fn floats(&self) -> impl Iterator<Item = f32> {
        let groups = self.quants.iter().zip(&self.scales);
        groups.flat_map(|(quants, scale)| quants.map(|quant| f32::from(quant) * scale))
    }
}
