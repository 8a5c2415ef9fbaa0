//! Statistics, plots and HTML reports of Tributary results.
