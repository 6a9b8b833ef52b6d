// Package scheduletest holds the tests of schedules that need an engine: that each fire starts one run whatever happens
// to the keepers, overlap policies, catching up, and operators' calls. Tests edit stored times instead of waiting.
package scheduletest
