package check

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// systemd reads the units, and finds nothing wrong.
func TestUnits(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing: this machine does not run systemd")
	}
	units, err := filepath.Glob("../systemd/*.service")
	require.NoError(t, err)
	require.Len(t, units, 2)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		require.Contains(t, string(text), "ExecStart=/usr/bin/flowfabric ")
		copied := filepath.Join(t.TempDir(), filepath.Base(unit))
		installed := strings.ReplaceAll(string(text), "/usr/bin/flowfabric ", "/bin/true ") // which is there
		require.NoError(t, os.WriteFile(copied, []byte(installed), 0o600))
		output, err := exec.CommandContext(t.Context(), tool, "verify", "--man=no", copied).CombinedOutput()
		require.NoError(t, err, "%s: %s", unit, output)
		require.NotContains(t, string(output), filepath.Base(unit), "%s: %s", unit, output)
	}
}

// The compose file is one by the specification, with the files that it names.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"},
		cli.WithEnv([]string{"FLOWFABRIC_ADMIN_TOKEN=0123456789abcdef"}))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	require.Len(t, project.Services, 3)
	for _, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type == "bind" {
				require.FileExists(t, v.Source)
			}
		}
		if s.Build != nil {
			require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
		}
	}
	options, err = cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithEnv([]string{}))
	require.NoError(t, err)
	_, err = options.LoadProject(t.Context())
	require.ErrorContains(t, err, "16 characters", "there is no default token")
}

// Every manifest is of a type of Kubernetes, without unknown fields, and they fit each other.
func TestManifests(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	text, err := os.ReadFile("../kubernetes/flowfabric.yaml")
	require.NoError(t, err)
	var deployment *appsv1.Deployment
	var service *corev1.Service
	kinds := 0
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		object, _, err := strict.Decode(document, nil, nil)
		require.NoError(t, err, "%s", document)
		kinds++
		switch object := object.(type) {
		case *appsv1.Deployment:
			deployment = object
		case *corev1.Service:
			service = object
		}
	}
	require.Equal(t, 5, kinds)
	require.Equal(t, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
	require.Equal(t, deployment.Spec.Template.Labels, service.Spec.Selector)
	container := deployment.Spec.Template.Spec.Containers[0]
	require.Equal(t, container.Ports[0].Name, service.Spec.Ports[0].TargetPort.StrVal)
	require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
	require.True(t, bytes.Contains(text, []byte("runAsNonRoot: true")))
}
