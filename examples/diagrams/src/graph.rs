//! Graphs in a subset of Graphviz' DOT language, drawn in layers.

mod layers;
mod parse;

use crate::{
    DiagramError,
    svg::{Svg, width_of},
};
use layers::Layers;

/// The maximum number of boxes. The number of arrows has the same limit.
const MAX_ITEMS: usize = 200;

const BOX_HEIGHT: f64 = 40.0;
const BETWEEN_BOXES: f64 = 40.0;
const BETWEEN_LAYERS: f64 = 100.0;
const MARGIN: f64 = 30.0;

#[derive(Debug, Default, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

#[derive(Debug, PartialEq)]
struct Node {
    id: String,
    label: String,
}

/// An arrow between two nodes. `from` and `to` are indices of nodes in [`Graph`].
#[derive(Debug, PartialEq)]
struct Edge {
    from: usize,
    to: usize,
    label: String,
}

impl Graph {
    /// Parses the source of a graph, for example `digraph { web -> api [label="HTTP"]; api
    /// [label="API server"] }`.
    pub fn parse(source: &str) -> Result<Self, DiagramError> {
        let graph = parse::parse(source)?;
        for (found, of) in [(graph.nodes.len(), "boxes"), (graph.edges.len(), "arrows")] {
            if found > MAX_ITEMS {
                return Err(DiagramError::TooMany { found, of, most: MAX_ITEMS });
            }
        }
        if graph.nodes.is_empty() {
            return Err(DiagramError::Empty("write at least one `a -> b`"));
        }
        Ok(graph)
    }

    /// Returns the number of boxes and the number of arrows, in this order.
    pub fn size(&self) -> (usize, usize) {
        (self.nodes.len(), self.edges.len())
    }

    /// Draws the graph as SVG, with one row of boxes for each layer. Arrows point down, except
    /// those that close a cycle.
    pub fn to_svg(&self) -> String {
        let layers = Layers::of(self.nodes.len(), self.edges.iter().map(|edge| (edge.from, edge.to)));
        let places = self.places(&layers);
        let mut svg = Svg::default();
        for (edge, way) in self.edges.iter().zip(&layers.ways) {
            let points: Vec<_> = way.iter().filter_map(|place| places.get(*place).copied()).collect();
            draw_edge(&mut svg, edge, &points, [edge.from, edge.to].map(|number| self.width(number)));
        }
        for (number, node) in self.nodes.iter().enumerate() {
            if let Some(place) = places.get(number) {
                svg.add_box(*place, (self.width(number), BOX_HEIGHT), &node.label);
            }
        }
        svg.finish(MARGIN)
    }

    fn width(&self, number: usize) -> f64 {
        // The numbers after those of the nodes belong to the bends of arrows, which have a fixed
        // width.
        self.nodes.get(number).map_or(10.0, |node| width_of(&node.label).max(40.0) + 24.0)
    }

    /// Returns the centre of each node and the position of each bend. Layers are centred
    /// horizontally.
    fn places(&self, layers: &Layers) -> Vec<(f64, f64)> {
        let width_of_row = |row: &Vec<usize>| {
            let boxes: f64 = row.iter().map(|number| self.width(*number)).sum();
            boxes + BETWEEN_BOXES * row.len().saturating_sub(1) as f64
        };
        let widest = layers.rows.iter().map(width_of_row).fold(0.0, f64::max);
        let mut places = vec![(0.0, 0.0); layers.count()];
        for (depth, row) in layers.rows.iter().enumerate() {
            let mut x = MARGIN + (widest - width_of_row(row)) / 2.0;
            let y = MARGIN + BOX_HEIGHT / 2.0 + BETWEEN_LAYERS * depth as f64;
            for number in row {
                let width = self.width(*number);
                if let Some(place) = places.get_mut(*number) {
                    *place = (x + width / 2.0, y);
                }
                x += width + BETWEEN_BOXES;
            }
        }
        places
    }
}

/// Draws an arrow along `points`: the centre of its first box, its bends, and the centre of its
/// last box. The arrow starts and ends at the borders of the boxes. `widths` contains the widths of
/// both boxes.
fn draw_edge(svg: &mut Svg, edge: &Edge, points: &[(f64, f64)], widths: [f64; 2]) {
    let ([start, second, ..], [.., before, end]) = (points, points) else { return };
    if edge.from == edge.to {
        let (right, y) = (start.0 + widths[0] / 2.0, start.1);
        svg.add_path(&format!("M {right:.1} {:.1} c 40 -10 40 30 0 20", y - 10.0), "line", true);
        svg.add_text((right + 36.0, y), &edge.label, "start");
        return;
    }
    // The arrow starts at the lower border if it points down, or at the upper border if it closes a
    // cycle.
    let rim = if end.1 > start.1 { BOX_HEIGHT / 2.0 } else { -BOX_HEIGHT / 2.0 };
    let mut from = (arrow_x(*start, *second, widths[0]), start.1 + rim);
    let last = (arrow_x(*end, *before, widths[1]), end.1 - rim);
    let mut path = format!("M {:.1} {:.1}", from.0, from.1);
    let mut middle = None;
    for (number, point) in points.iter().enumerate().skip(1) {
        let to = if number + 1 == points.len() { last } else { *point };
        let y = (from.1 + to.1) / 2.0;
        path += &format!(" C {:.1} {y:.1} {:.1} {y:.1} {:.1} {:.1}", from.0, to.0, to.0, to.1);
        svg.extend_to(to.0, to.1);
        middle.get_or_insert(((from.0 + to.0) / 2.0, y));
        from = to;
    }
    svg.add_path(&path, "line", true);
    // Draw the label on the first segment of the arrow. Arrows to different boxes diverge there, so
    // their labels rarely overlap.
    if let Some(middle) = middle {
        svg.add_label(middle, &edge.label);
    }
}

/// Returns the x coordinate at which an arrow meets the border of a box. `at` is the centre of the
/// box, `width` is its width, and `other` is the next point of the arrow. The coordinate is shifted
/// from the centre towards `other`.
fn arrow_x(at: (f64, f64), other: (f64, f64), width: f64) -> f64 {
    at.0 + ((other.0 - at.0) * 0.3).clamp(-width / 3.0, width / 3.0)
}
