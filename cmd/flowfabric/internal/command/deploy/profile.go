package deploy

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/profile"
)

func Profile(a *shell.App) *cobra.Command {
	return a.Group("profile", "Manage the profiles of the command", profileList(a), profileSet(a), profileUse(a),
		profileDelete(a))
}

// namedProfile is a profile as it is printed: the password of its URL is not.
type namedProfile struct {
	Name      string `json:"name"`
	Default   bool   `json:"default,omitempty"`
	URL       string `json:"url"`
	Prefix    string `json:"prefix,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Actor     string `json:"actor,omitempty"`
	TokenFile string `json:"token_file,omitempty"`
	Output    string `json:"output,omitempty"`
}

var profileView = output.View[namedProfile]{
	Name: func(p namedProfile) string { return p.Name },
	Columns: []output.Column[namedProfile]{
		{Name: "profile", Text: func(p namedProfile) string { return p.Name }},
		{Name: "default", Text: func(p namedProfile) string {
			if p.Default {
				return "yes"
			}
			return ""
		}},
		{Name: "url", Text: func(p namedProfile) string { return p.URL }},
		{Name: "prefix", Text: func(p namedProfile) string { return p.Prefix }},
		{Name: "namespace", Text: func(p namedProfile) string { return p.Namespace }},
		{Name: "actor", Text: func(p namedProfile) string { return p.Actor }},
		{Name: "token file", Text: func(p namedProfile) string { return p.TokenFile }},
		{Name: "output", Wide: true, Text: func(p namedProfile) string { return p.Output }},
	},
}

func profileList(a *shell.App) *cobra.Command {
	return a.Standalone(shell.Spec{
		Use: "list", Short: "Show the profiles, without passwords", Columns: profileView.ColumnNames(),
		Do: func(r *shell.Request) error {
			file, err := profile.Read(profile.Path(a.Env))
			if err != nil {
				return err
			}
			var list []namedProfile
			for _, name := range file.Names() {
				p := file.Profiles[name]
				list = append(list, namedProfile{
					name, name == file.Profile, withoutPassword(p.URL), p.Prefix, p.Namespace, p.Actor, p.TokenFile,
					p.Output,
				})
			}
			return output.List(r.Out, profileView, list)
		},
	})
}

// changeProfiles reads the file, changes it and writes it.
func changeProfiles(a *shell.App, do func(*profile.File) error) error {
	path := profile.Path(a.Env)
	file, err := profile.Read(path)
	if err != nil {
		return err
	}
	if err := do(file); err != nil {
		return err
	}
	return file.Write(path)
}

func profileSet(a *shell.App) *cobra.Command {
	c := a.Standalone(shell.Spec{
		Use: "set NAME", Short: "Save --url and the other flags that are given as a profile",
		Long: "Saves the flags --url, --prefix, --namespace, --actor, --token-file and --output as a profile, " +
			"and replaces a profile of that name as a whole. The first profile is the default one. " +
			"A URL with a password is stored as it is, in a file that its owner alone can read.",
		Example: "  flowfabric profile set production --url https://flows.example.com --token-file ~/.flows-token",
		Check: func([]string) error {
			if a.Flags.URL == "" {
				return fmt.Errorf("takes --url")
			}
			return nil
		},
		Do: func(r *shell.Request) error {
			f := &a.Flags
			err := changeProfiles(a, func(file *profile.File) error {
				if file.Profiles == nil {
					file.Profiles = map[string]profile.Profile{}
				}
				if len(file.Profiles) == 0 {
					file.Profile = r.Args[0]
				}
				file.Profiles[r.Args[0]] = profile.Profile{
					URL: f.URL, TokenFile: f.TokenFile, Prefix: f.Prefix, Namespace: f.Namespace, Actor: f.Actor,
					Output: f.Output,
				}
				return nil
			})
			return r.PrintDone("saved", r.Args[0], err)
		},
	})
	return c
}

func profileUse(a *shell.App) *cobra.Command {
	c := a.Standalone(shell.Spec{
		Use: "use PROFILE", Short: "Make a profile the default one",
		Do: func(r *shell.Request) error {
			err := changeProfiles(a, func(file *profile.File) error {
				if _, err := file.Named(r.Args[0]); err != nil {
					return err
				}
				file.Profile = r.Args[0]
				return nil
			})
			return r.PrintDone("default", r.Args[0], err)
		},
	})
	c.ValidArgsFunction = a.CompleteProfiles
	return c
}

func profileDelete(a *shell.App) *cobra.Command {
	c := a.Standalone(shell.Spec{
		Use: "delete PROFILE", Short: "Delete a profile",
		Do: func(r *shell.Request) error {
			err := changeProfiles(a, func(file *profile.File) error {
				if _, err := file.Named(r.Args[0]); err != nil {
					return err
				}
				delete(file.Profiles, r.Args[0])
				if file.Profile == r.Args[0] {
					file.Profile = ""
				}
				return nil
			})
			return r.PrintDone("deleted", r.Args[0], err)
		},
	})
	c.ValidArgsFunction = a.CompleteProfiles
	return c
}

// withoutPassword hides the password of a URL.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	return u.Redacted()
}
