module github.com/flowfabric/flowfabric-go/internal/test/linearizability

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
