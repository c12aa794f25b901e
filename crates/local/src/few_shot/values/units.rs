//! Units of measurement.

/// The quantity that a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::few_shot) enum Dimension {
    Frequency,
    Length,
    Mass,
    Power,
    /// Periods of the calendar, which have no fixed number of seconds.
    Calendar,
    Time,
    Volume,
}

/// A unit of measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::few_shot) struct Unit {
    pub(in crate::few_shot) dimension: Dimension,
    /// The size of the unit in hertz, metres, grams, watts, months, seconds or litres.
    pub(in crate::few_shot) factor: f64,
}

impl Unit {
    pub(in crate::few_shot) const SECOND: Self = Self { dimension: Dimension::Time, factor: 1.0 };

    pub(in crate::few_shot) const MINUTE: Self = Self { dimension: Dimension::Time, factor: 60.0 };

    pub(in crate::few_shot) const DAY: Self = Self { dimension: Dimension::Time, factor: 86_400.0 };

    pub(in crate::few_shot) const MONTH: Self = Self { dimension: Dimension::Calendar, factor: 1.0 };

    /// Returns the unit with the lower-case name `name`: a singular, a plural or a symbol.
    pub(in crate::few_shot) fn from_name(name: &str) -> Option<Self> {
        let (_, dimension, factor) = UNITS.iter().find(|(names, ..)| names.contains(&name))?;
        Some(Self { dimension: *dimension, factor: *factor })
    }
}

/// The names of each unit, its dimension and its size.
const UNITS: [(&[&str], Dimension, f64); 34] = {
    use Dimension::{Calendar, Frequency, Length, Mass, Power, Time, Volume};
    [
        (&["ms", "millisecond", "milliseconds", "millis"], Time, 0.001),
        (&["s", "sec", "secs", "second", "seconds"], Time, 1.0),
        (&["min", "mins", "minute", "minutes"], Time, 60.0),
        (&["h", "hr", "hrs", "hour", "hours"], Time, 3_600.0),
        (&["day", "days", "night", "nights"], Time, 86_400.0),
        (&["week", "weeks"], Time, 604_800.0),
        (&["fortnight", "fortnights"], Time, 1_209_600.0),
        (&["month", "months"], Calendar, 1.0),
        (&["year", "years"], Calendar, 12.0),
        (&["hz", "hertz"], Frequency, 1.0),
        (&["khz", "kilohertz"], Frequency, 1e3),
        (&["mhz", "megahertz"], Frequency, 1e6),
        (&["ghz", "gigahertz"], Frequency, 1e9),
        (&["watt", "watts"], Power, 1.0),
        (&["kw", "kilowatt", "kilowatts"], Power, 1_000.0),
        (&["mm", "millimetre", "millimetres", "millimeter", "millimeters"], Length, 0.001),
        (&["cm", "centimetre", "centimetres", "centimeter", "centimeters"], Length, 0.01),
        (&["m", "metre", "metres", "meter", "meters"], Length, 1.0),
        (&["km", "kilometre", "kilometres", "kilometer", "kilometers"], Length, 1_000.0),
        (&["inch", "inches"], Length, 0.0254),
        (&["ft", "foot", "feet"], Length, 0.3048),
        (&["yd", "yard", "yards"], Length, 0.9144),
        (&["mi", "mile", "miles"], Length, 1_609.344),
        (&["mg", "milligram", "milligrams"], Mass, 0.001),
        (&["g", "gram", "grams", "gramme", "grammes"], Mass, 1.0),
        (&["kg", "kgs", "kilo", "kilos", "kilogram", "kilograms"], Mass, 1_000.0),
        (&["oz", "ounce", "ounces"], Mass, 28.349_523_125),
        (&["lb", "lbs", "pound", "pounds"], Mass, 453.592_37),
        (&["stone"], Mass, 6_350.293_18),
        (&["tonne", "tonnes"], Mass, 1_000_000.0),
        (&["ml", "millilitre", "millilitres", "milliliter", "milliliters"], Volume, 0.001),
        (&["cl", "centilitre", "centilitres", "centiliter", "centiliters"], Volume, 0.01),
        (&["dl", "decilitre", "decilitres", "deciliter", "deciliters"], Volume, 0.1),
        (&["l", "litre", "litres", "liter", "liters"], Volume, 1.0),
    ]
};
