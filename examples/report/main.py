"""Work that takes a while, as async runs do: a report is written page by page, and can be put on a shelf."""

import time


def run(pages: int = 2, seconds_per_page: float = 0.5):
    if pages < 1:
        return {"status_code": 422, "message": f"pages is {pages}, but a report has at least one."}
    for page in range(1, pages + 1):
        time.sleep(seconds_per_page)
        print(f"page {page} of {pages}")
    return {"pages": pages}


def publish(shelf: str = "open"):
    if shelf == "closed":
        return {"status_code": 503, "message": "The shelf is closed; try again later."}
    return {"shelf": shelf}
