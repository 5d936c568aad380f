// Entry of the dashboard: the look, what is asked of the API, and the pages by address.
import { createTheme, MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { createRoot } from "react-dom/client";
import "@mantine/core/styles.css";
import "./app.css";
import { watchConnection } from "./connection.ts";
import { queryClient } from "./queries.ts";
import { router } from "./router.tsx";

const theme = createTheme({
  primaryColor: "indigo",
  defaultRadius: "sm",
  components: {
    Button: { defaultProps: { size: "xs" } },
    TextInput: { defaultProps: { size: "xs", withAsterisk: false } },
    NativeSelect: { defaultProps: { size: "xs" } },
    Textarea: { defaultProps: { size: "xs", withAsterisk: false } },
    Modal: { defaultProps: { lockScroll: false } },
    // A dialog has no banner; its heading names it.
    ModalHeader: { defaultProps: { role: "presentation" } },
  },
});

// A page that was open while the dashboard was built anew names files that are gone.
addEventListener("vite:preloadError", () => location.reload());

watchConnection();

const root = document.getElementById("root");
if (root !== null) {
  createRoot(root).render(
    // Colours are in app.css: style tags would need an exception in the content security policy.
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}
