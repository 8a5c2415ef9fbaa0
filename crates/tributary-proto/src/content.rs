//! Classes of prioritised data by what they need of a subflow. Not here: how a subflow is chosen (`scheduler`).

/// What prioritised data needs most of its subflow.
///
/// Source: AVIRA §III-B: a component is sent on the subflow with the highest throughput or with the shortest round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContentClass {
    /// Latency and throughput, by the session's weights.
    #[default]
    Mixed,
    /// The shortest latency: small messages.
    Latency,
    /// The highest throughput: video.
    Throughput,
}
