package runtime_test

import "os"

// childVariable makes this test binary play another process: its value says which.
const childVariable = "FLOWFABRIC_TEST_CHILD"

func runChild() int {
	switch os.Getenv(childVariable) {
	}
	return 2
}
