//! Creates SVG images of boxes, arrows and text.

use std::fmt::Write as _;

/// The approximate width of a character, in SVG units.
const LETTER_WIDTH: f64 = 8.0;

/// A builder for an SVG image. The image grows with its contents.
#[derive(Default)]
pub(crate) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    /// Enlarges the picture so that it contains the point (`x`, `y`).
    pub(crate) fn extend_to(&mut self, x: f64, y: f64) {
        self.width = self.width.max(x);
        self.height = self.height.max(y);
    }

    /// Adds a box with a label. The point (`x`, `y`) is the centre of the box.
    pub(crate) fn add_box(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), label: &str) {
        let (left, top) = (x - width / 2.0, y - height / 2.0);
        self.add_element(&format!(
            r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" rx="6" class="box"/>"#
        ));
        self.add_text((x, y), label, "middle");
        self.extend_to(left + width, top + height);
    }

    /// Adds the text `words`. If `anchor` is `middle`, the text is centred at (`x`, `y`). If it is
    /// `start`, the text begins there.
    pub(crate) fn add_text(&mut self, (x, y): (f64, f64), words: &str, anchor: &str) {
        if words.is_empty() {
            return;
        }
        let words_width = width_of(words);
        self.add_element(&format!(
            r#"<text x="{x:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
            y + 5.0,
            escaped(words)
        ));
        self.extend_to(if anchor == "start" { x + words_width } else { x + words_width / 2.0 }, y + 10.0);
    }

    /// Adds the text `words`, centred at (`x`, `y`). It has a white background, so it can label a
    /// line.
    pub(crate) fn add_label(&mut self, (x, y): (f64, f64), words: &str) {
        if !words.is_empty() {
            let (width, left) = (width_of(words) + 4.0, x - width_of(words) / 2.0 - 2.0);
            self.add_element(&format!(
                r#"<rect x="{left:.1}" y="{:.1}" width="{width:.1}" height="18" fill="white" opacity="0.85"/>"#,
                y - 9.0
            ));
        }
        self.add_text((x, y), words, "middle");
    }

    /// Adds a line. `path` is the `d` attribute of an SVG path. If `is_arrow` is `true`, the line
    /// ends with an arrowhead.
    pub(crate) fn add_path(&mut self, path: &str, class: &str, is_arrow: bool) {
        let arrow = if is_arrow { r##" marker-end="url(#arrow)""## } else { "" };
        self.add_element(&format!(r#"<path d="{path}" class="{class}"{arrow}/>"#));
    }

    fn add_element(&mut self, element: &str) {
        let _ = writeln!(self.body, "  {element}");
    }

    /// Returns the content of the SVG file. `margin` is the free space to the right of the contents
    /// and below them, in SVG units.
    pub(crate) fn finish(self, margin: f64) -> String {
        let (width, height) = (self.width + margin, self.height + margin);
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}">
  <defs>
    <marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">
      <path d="M 0 0 L 10 5 L 0 10 z" fill="#334"/>
    </marker>
  </defs>
  <style>
    text {{ font: 14px sans-serif; fill: #112; }}
    .box {{ fill: #eef3fb; stroke: #334; }}
    .line {{ fill: none; stroke: #334; }}
    .dashed {{ fill: none; stroke: #334; stroke-dasharray: 5 4; }}
  </style>
  <rect width="100%" height="100%" fill="white"/>
{}</svg>
"##,
            self.body
        )
    }
}

/// Returns the approximate width of `words` in SVG units.
pub(crate) fn width_of(words: &str) -> f64 {
    LETTER_WIDTH * words.chars().count() as f64
}

/// Escapes `words` for SVG and removes control characters. The text may come from a model.
fn escaped(words: &str) -> String {
    let shown = words.chars().filter(|letter| !letter.is_control());
    shown.fold(String::new(), |mut text, letter| {
        match letter {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            other => text.push(other),
        }
        text
    })
}
