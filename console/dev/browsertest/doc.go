// Package browsertest uses the console as people do: in a headless Chromium, against a real server on each engine.
//
// The tests wait for content of the pages, never for time. FLOWFABRIC_SCREENSHOTS names a folder into which
// TestScreenshots writes every page in light, dark and phone width.
package browsertest
