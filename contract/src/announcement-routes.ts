// The route of what the operator tells everybody who uses the platform.
import { z } from "zod";
import type { Route } from "./route.ts";

/** `GET /v2/notifications`. The link may be empty. */
const announcements = z.array(
  z.strictObject({ message: z.string(), link: z.string(), linkText: z.string() }),
);

/** The routes of announcements, by operation id. */
export const announcementRoutes = {
  listAnnouncements: {
    method: "GET",
    path: "/v2/notifications",
    about:
      "What the operator tells everybody who uses the platform, such as a planned interruption (SLIPWAY_ANNOUNCEMENT); mostly nothing.",
    access: "public",
    audit: null,
    status: 200,
    answer: announcements,
  },
} as const satisfies Record<string, Route>;
