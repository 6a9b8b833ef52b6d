// Command fetch makes sure that this checkout can start every server its tests need, by package download.
//
// With -cc it provides a C compiler instead, which the race detector cannot do without, and prints
// the value of CC to use. With -browser it provides Chromium and prints its path.
//
// If a server cannot be fetched, it reports the package to install. That is an error when CI=true; elsewhere the tests
// that need the server fail with the same report.
package main
