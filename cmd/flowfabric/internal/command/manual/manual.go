// Package manual writes the pages of the commands, for man and in Markdown.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
)

func Command(a *shell.App) *cobra.Command {
	var format string
	c := a.Standalone(shell.Spec{
		Use: "manual DIRECTORY", Short: "Write man pages of all commands, or pages in Markdown",
		Check: func([]string) error {
			if format != "man" && format != "markdown" {
				return fmt.Errorf("--format %q: must be man or markdown", format)
			}
			return nil
		},
		Do: func(r *shell.Request) error {
			pages := ManPages(r.Cmd.Root())
			if format == "markdown" {
				pages = MarkdownPages(r.Cmd.Root())
			}
			if err := os.MkdirAll(r.Args[0], 0o755); err != nil {
				return err
			}
			for name, text := range pages {
				if err := os.WriteFile(filepath.Join(r.Args[0], name), []byte(text), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	})
	c.Flags().StringVar(&format, "format", "man", "man or markdown")
	return c
}

// Visit visits the commands below one, in order, without those that cobra adds.
func Visit(c *cobra.Command, see func(*cobra.Command)) {
	for _, child := range c.Commands() {
		if child.Name() == "help" || child.Name() == "completion" || child.Hidden {
			continue
		}
		see(child)
		Visit(child, see)
	}
}

// summaryLine is a command with its arguments.
func summaryLine(c *cobra.Command) string {
	line := c.CommandPath()
	if c.HasSubCommands() {
		return line + " COMMAND"
	}
	if arguments := shell.ArgumentNames(c.Use); len(arguments) > 0 {
		line += " " + strings.Join(arguments, " ")
	}
	return line + " [flags]"
}

// flagLine is a flag with its type and its default, in the form of the help.
func flagLine(f *pflag.Flag) (head, text string) {
	kind, usage := pflag.UnquoteUsage(f)
	head = "--" + f.Name
	if f.Shorthand != "" {
		head = "-" + f.Shorthand + ", " + head
	}
	if kind != "" {
		head += " " + kind
	}
	if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
		usage += " (default " + f.DefValue + ")"
	}
	return head, usage
}

func eachFlag(c *cobra.Command, see func(head, text string)) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden {
			see(flagLine(f))
		}
	})
}

// MarkdownPages returns a page for each command of the first level, and one that lists them, by the names of their
// files.
func MarkdownPages(root *cobra.Command) map[string]string {
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Reference of the command\n\nGenerated from the commands. How to use them: " +
		"[the command](../../operations/command.md).\n\n" +
		"| command | |\n| --- | --- |\n")
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		fmt.Fprintf(&index, "| [`%s`](%s.md) | %s |\n", c.Name(), c.Name(), markdownText(c.Short))
		var page strings.Builder
		fmt.Fprintf(&page, "# flowfabric %s\n\n", c.Name())
		writeMarkdown(&page, c)
		Visit(c, func(child *cobra.Command) {
			fmt.Fprintf(&page, "## %s\n\n", strings.TrimPrefix(child.CommandPath(), "flowfabric "))
			writeMarkdown(&page, child)
		})
		pages[c.Name()+".md"] = strings.TrimRight(page.String(), "\n") + "\n"
	}
	index.WriteString("\nFlags of all commands:\n\n| flag | |\n| --- | --- |\n")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		head, text := flagLine(f)
		fmt.Fprintf(&index, "| `%s` | %s |\n", head, markdownText(text))
	})
	index.WriteString("\nExit codes:\n\n| code | |\n| --- | --- |\n")
	for _, e := range shell.ExitCodes {
		fmt.Fprintf(&index, "| %d | %s |\n", e.Code, e.Text)
	}
	pages["README.md"] = index.String()
	return pages
}

func markdownText(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}

func writeMarkdown(page *strings.Builder, c *cobra.Command) {
	text := c.Short + "."
	if c.Long != "" {
		text = c.Long
	}
	fmt.Fprintf(page, "%s\n\n```text\n%s\n```\n\n", text, summaryLine(c))
	if c.Example != "" {
		fmt.Fprintf(page, "```sh\n%s\n```\n\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
	first := true
	eachFlag(c, func(head, text string) {
		if first {
			page.WriteString("| flag | |\n| --- | --- |\n")
			first = false
		}
		fmt.Fprintf(page, "| `%s` | %s |\n", head, markdownText(text))
	})
	if !first {
		page.WriteString("\n")
	}
}

// ManPages returns a page of section 1 for each command, by the names of their files.
func ManPages(root *cobra.Command) map[string]string {
	pages := map[string]string{"flowfabric.1": manPage(root)}
	Visit(root, func(c *cobra.Command) {
		pages[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"] = manPage(c)
	})
	return pages
}

// manText escapes a text for troff.
func manText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func manPage(c *cobra.Command) string {
	var page strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&page, ".TH %q 1 \"\" \"FlowFabric\" \"FlowFabric\"\n", strings.ToUpper(name))
	fmt.Fprintf(&page, ".SH NAME\n%s \\- %s\n", manText(name), manText(c.Short))
	fmt.Fprintf(&page, ".SH SYNOPSIS\n.B %s\n", manText(summaryLine(c)))
	text := c.Short + "."
	if c.Long != "" {
		text = c.Long
	}
	fmt.Fprintf(&page, ".SH DESCRIPTION\n%s\n", manText(text))
	if c.HasSubCommands() {
		page.WriteString(".SH COMMANDS\n")
		for _, child := range c.Commands() {
			if child.Name() != "help" && child.Name() != "completion" {
				fmt.Fprintf(&page, ".TP\n.B %s\n%s\n", manText(child.Name()), manText(child.Short))
			}
		}
	}
	first := true
	option := func(head, text string) {
		if first {
			page.WriteString(".SH OPTIONS\n")
			first = false
		}
		fmt.Fprintf(&page, ".TP\n.B %s\n%s\n", manText(head), manText(text))
	}
	eachFlag(c, option)
	c.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { option(flagLine(f)) })
	if c.Example != "" {
		fmt.Fprintf(&page, ".SH EXAMPLES\n.nf\n%s\n.fi\n", manText(c.Example))
	}
	page.WriteString(".SH EXIT STATUS\n")
	for _, e := range shell.ExitCodes {
		fmt.Fprintf(&page, ".TP\n.B %d\n%s\n", e.Code, manText(e.Text))
	}
	return page.String()
}
